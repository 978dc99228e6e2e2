//! The drivers against real servers, started and stopped here, and against
//! fakes where a real one cannot be had.

mod support;

mod dying_server;
mod experiments;
mod fsync_delay;
mod mariadb;
mod memcached;
mod plugin;
mod postgres;
mod refusals;
