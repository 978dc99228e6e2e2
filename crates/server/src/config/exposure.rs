//! Checks which listeners other machines may reach.
//!
//! Rules: while `root` has no password, no listener accepts other machines. A memcached listener,
//! whose clients send passwords in plain text, accepts them only with `--memcached-tls required` or
//! `--insecure-memcached`.

use super::{Config, StartError, TlsMode};
use std::net::SocketAddr;

/// The address, if other machines can reach it.
pub(crate) fn non_loopback(address: Option<SocketAddr>) -> Option<SocketAddr> {
    address.filter(|a| !a.ip().to_canonical().is_loopback())
}

/// Checks the rules; `root_has_password` comes from the account tables.
pub fn check(config: &Config, root_has_password: bool) -> Result<(), StartError> {
    let listeners = [
        ("--mysql-listen", config.mysql_listen),
        ("--memcached-listen", config.memcached_listen),
        ("--native-listen", config.native_listen),
        ("--rest-listen", config.rest_listen),
        ("--http-listen", config.http_listen),
    ];
    let more = config.memcached_listeners.iter();
    let more = more.map(|(_, at)| ("--memcached-listeners", Some(*at)));
    for (option, address) in listeners.into_iter().chain(more) {
        if let Some(address) = non_loopback(address)
            && !root_has_password
        {
            return Err(StartError::usage(format!(
                "{option} {address} is reachable from other machines, and user root has no \
                 password: set one (PORPOISE_ROOT_PASSWORD at first start) or listen at 127.0.0.1"
            )));
        }
    }
    check_memcached(config)
}

/// Checks the rule for memcached listeners, which needs no accounts.
pub fn check_memcached(config: &Config) -> Result<(), StartError> {
    let first = ("--memcached-listen", config.memcached_listen);
    let more = config.memcached_listeners.iter();
    let more = more.map(|(_, at)| ("--memcached-listeners", Some(*at)));
    for (option, address) in std::iter::once(first).chain(more) {
        let allowed = config.insecure_memcached || config.memcached_tls == TlsMode::Required;
        let Some(address) = non_loopback(address).filter(|_| !allowed) else {
            continue;
        };
        return Err(StartError::usage(format!(
            "{option} {address} is reachable from other machines, and memcached clients may send \
             passwords in the clear: listen at 127.0.0.1, use --memcached-tls required, or say \
             --insecure-memcached"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table;

    fn config(mysql: &str, memcached: &str, http: &str) -> Config {
        let mut config = table::defaults();
        config.mysql_listen = mysql.parse().ok();
        config.memcached_listen = memcached.parse().ok();
        config.http_listen = http.parse().ok();
        config
    }

    #[test]
    fn loopback_addresses_are_always_allowed() {
        assert!(check(&config("127.0.0.1:1", "[::1]:1", "127.9.9.9:1"), false).is_ok());
        assert!(check(&config("off", "off", "off"), false).is_ok());
    }

    #[test]
    fn other_addresses_need_a_root_password() {
        for open in [
            config("0.0.0.0:1", "off", "off"),
            config("off", "off", "[::]:1"),
            config("10.0.0.1:1", "off", "off"),
        ] {
            let error = check(&open, false).unwrap_err();
            assert!(error.message.contains("root has no password"), "{error}");
            assert_eq!(error.status, 2);
            assert!(check(&open, true).is_ok());
        }
    }

    #[test]
    fn memcached_also_needs_tls_or_an_explicit_option() {
        let mut open = config("off", "0.0.0.0:1", "off");
        assert!(
            check(&open, true)
                .unwrap_err()
                .message
                .contains("--insecure-memcached")
        );
        open.memcached_tls = TlsMode::Required;
        assert!(check(&open, true).is_ok());
        open.memcached_tls = TlsMode::Allowed;
        assert!(check(&open, true).is_err());
        open.insecure_memcached = true;
        assert!(check(&open, true).is_ok());
        assert!(check(&open, false).is_err());
    }
}
