//! Free loopback ports for servers that cannot pick one themselves.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::fail;

/// Number of attempts to start a server when another process takes its port first.
pub const TRIES: usize = 5;

/// Returns `count` distinct addresses on 127.0.0.1 whose ports were free a moment ago.
///
/// All ports are bound at the same time, so that they differ, and released on return. Another process
/// may take one before the server binds it; the caller then tries again.
pub fn free(count: usize) -> Vec<SocketAddr> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) {
            Ok(listener) => listener,
            Err(error) => fail("ports", format_args!("no free loopback port: {error}")),
        })
        .collect();
    listeners
        .iter()
        .map(|listener| match listener.local_addr() {
            Ok(address) => address,
            Err(error) => fail("ports", error),
        })
        .collect()
}
