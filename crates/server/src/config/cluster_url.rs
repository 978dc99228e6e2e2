//! The value of `--engine` for a TiKV cluster: `tikv://HOST:PORT,...?OPTION=VALUE&...`.

use super::value::{self, Parsed};
use std::path::PathBuf;
use std::time::Duration;

/// Options, as errors list them.
const OPTIONS: &str = "ca, cert, key, tenant, name, connect-timeout, request-timeout, retry-timeout, lock-ttl, lock-wait, retention, staleness";

/// A TiKV cluster, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterUrl {
    /// Addresses of placement drivers, `HOST:PORT`.
    pub addresses: Vec<String>,
    /// File with the certificate of the authority that signed those of the cluster; `None`: no TLS.
    pub ca: Option<PathBuf>,
    /// Files with the certificate of this server and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Number that separates installations which share a cluster.
    pub tenant: u32,
    /// Name of the installation, so that two cannot share a tenant by mistake.
    pub name: Option<String>,
    /// Time for which the start of a server tries to connect.
    pub connect_timeout: Option<Duration>,
    /// Time limit of a request.
    pub request_timeout: Option<Duration>,
    /// Time for which a call is retried.
    pub retry_timeout: Option<Duration>,
    /// Time to live of locks of a server that has died.
    pub lock_ttl: Option<Duration>,
    /// Time for which a commit waits for locks.
    pub lock_wait: Option<Duration>,
    /// Time for which old versions are retained; `None`: this server collects none.
    pub retention: Option<Duration>,
    /// Default of the variable `read_staleness`.
    pub staleness: Option<Duration>,
}

impl Default for ClusterUrl {
    fn default() -> ClusterUrl {
        ClusterUrl {
            addresses: Vec::new(),
            ca: None,
            identity: None,
            tenant: 0,
            name: None,
            connect_timeout: None,
            request_timeout: None,
            retry_timeout: None,
            lock_ttl: None,
            lock_wait: None,
            retention: Some(Duration::from_secs(600)),
            staleness: None,
        }
    }
}

/// Whether `text` is `HOST:PORT`.
pub fn is_address(text: &str) -> bool {
    text.rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// Parses a time limit of locks or requests.
fn time(name: &str, text: &str) -> Parsed<Duration> {
    let bounds = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
    value::duration(text)
        .ok()
        .filter(|time| bounds.contains(time))
        .ok_or_else(|| format!("{name}=TIME from 1s to 24h"))
}

/// A value of `read_staleness`.
fn staleness(text: &str) -> Parsed<Duration> {
    value::duration(text)
        .ok()
        .filter(|time| *time <= Duration::from_secs(60))
        .ok_or_else(|| "staleness=TIME up to 60s".to_owned())
}

impl ClusterUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// A message that describes the accepted form.
    pub fn parse(text: &str) -> Parsed<ClusterUrl> {
        let expected = || "embedded or tikv://HOST:PORT,...?OPTION=VALUE&...".to_owned();
        let rest = text.strip_prefix("tikv://").ok_or_else(expected)?;
        let (addresses, options) = rest.split_once('?').unwrap_or((rest, ""));
        let addresses = addresses.strip_suffix('/').unwrap_or(addresses);
        let mut url = ClusterUrl {
            addresses: addresses.split(',').map(str::to_owned).collect(),
            ..ClusterUrl::default()
        };
        if !url.addresses.iter().all(|a| is_address(a)) {
            return Err(expected());
        }
        let (mut certificate, mut key) = (None, None);
        for option in options.split('&').filter(|o| !o.is_empty()) {
            let (name, text) = option.split_once('=').ok_or_else(expected)?;
            if text.is_empty() {
                return Err(format!("a value after {name}="));
            }
            match name {
                "ca" => url.ca = Some(text.into()),
                "cert" => certificate = Some(PathBuf::from(text)),
                "key" => key = Some(PathBuf::from(text)),
                _ => url.set(name, text)?,
            }
        }
        url.identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("cert=FILE and key=FILE, both or none".into()),
        };
        if url.identity.is_some() && url.ca.is_none() {
            return Err("ca=FILE with cert=FILE and key=FILE".into());
        }
        Ok(url)
    }

    fn set(&mut self, name: &str, text: &str) -> Parsed<()> {
        match name {
            "tenant" => self.tenant = text.parse().map_err(|_| "tenant=NUMBER".to_owned())?,
            "name" if text.len() <= 64 => self.name = Some(text.to_owned()),
            "name" => return Err("name=TEXT of at most 64 bytes".into()),
            "connect-timeout" => self.connect_timeout = Some(time(name, text)?),
            "request-timeout" => self.request_timeout = Some(time(name, text)?),
            "retry-timeout" => self.retry_timeout = Some(time(name, text)?),
            "lock-ttl" => self.lock_ttl = Some(time(name, text)?),
            "lock-wait" => self.lock_wait = Some(time(name, text)?),
            "retention" if text == "off" => self.retention = None,
            "retention" => self.retention = Some(time(name, text)?),
            "staleness" => self.staleness = Some(staleness(text)?),
            _ => return Err(format!("an option of {OPTIONS}, not {name:?}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_the_addresses() {
        let text = "tikv://a:1,b:2/?ca=/c.pem&cert=/s.pem&key=/s.key&tenant=3&name=shop&lock-ttl=5s&retention=off&staleness=500ms";
        let url = ClusterUrl::parse(text).unwrap();
        assert_eq!(url.addresses, ["a:1", "b:2"]);
        assert_eq!(url.identity, Some(("/s.pem".into(), "/s.key".into())));
        assert_eq!((url.tenant, url.name.as_deref()), (3, Some("shop")));
        assert_eq!(url.lock_ttl, Some(Duration::from_secs(5)));
        assert_eq!(url.retention, None);
        assert_eq!(url.staleness, Some(Duration::from_millis(500)));
        let plain = ClusterUrl::parse("tikv://a:1").unwrap();
        assert_eq!(plain.retention, Some(Duration::from_secs(600)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("tikv://", "HOST:PORT"),
            ("tikv://a:1,b", "HOST:PORT"),
            ("tikv://a:1?colour=blue", "colour"),
            ("tikv://a:1?cert=x&ca=y", "both or none"),
            ("tikv://a:1?cert=x&key=y", "ca=FILE"),
            ("tikv://a:1?tenant=-1", "tenant=NUMBER"),
            ("tikv://a:1?retention=1ms", "from 1s to 24h"),
            ("tikv://a:1?staleness=61s", "up to 60s"),
            ("tikv://a:1?name=", "after name="),
        ] {
            let refused = ClusterUrl::parse(text).unwrap_err();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }
}
