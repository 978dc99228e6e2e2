//! The description of a cluster, and its verification.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The description of a cluster. `example.toml` explains the settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topology {
    pub(super) name: String,
    pub(super) pd: Vec<String>,
    pub(super) tikv: Vec<String>,
    pub(super) porpoise: Vec<String>,
    #[serde(default = "three")]
    pub(super) replicas: usize,
    #[serde(default)]
    pub(super) tenant: u32,
    #[serde(default = "porpoise")]
    pub(super) user: String,
    #[serde(default = "data_dir")]
    pub(super) data_dir: String,
    pub(super) tikv_cache: Option<String>,
    #[serde(default)]
    pub(super) client_networks: Vec<String>,
    #[serde(default)]
    pub(super) cluster_networks: Vec<String>,
    pub(super) tls: Option<Tls>,
    #[serde(default)]
    pub(super) ports: Ports,
}

fn three() -> usize {
    3
}

fn porpoise() -> String {
    "porpoise".into()
}

fn data_dir() -> String {
    "/var/lib/porpoise-cluster".into()
}

/// Files of TLS, with the same paths on every host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub(super) ca: String,
    pub(super) cert: String,
    pub(super) key: String,
}

/// Ports of all parts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Ports {
    pub(super) pd_client: u16,
    pub(super) pd_peer: u16,
    pub(super) tikv: u16,
    pub(super) tikv_status: u16,
    pub(super) mysql: u16,
    pub(super) memcached: u16,
    pub(super) http: u16,
}

impl Default for Ports {
    fn default() -> Ports {
        Ports {
            pd_client: 2379,
            pd_peer: 2380,
            tikv: 20160,
            tikv_status: 20180,
            mysql: 3306,
            memcached: 11211,
            http: 8380,
        }
    }
}

/// A part of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Pd,
    Tikv,
    Porpoise,
}

/// The peers that connect to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peers {
    Cluster,
    Clients,
}

/// A port that a role listens on.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenPort {
    pub(super) port: u16,
    pub(super) purpose: &'static str,
    pub(super) peers: Peers,
}

/// `host` with brackets where an address needs them before a port.
pub(super) fn with_port(host: &str, port: u16) -> String {
    match host.parse() {
        Ok(IpAddr::V6(_)) => format!("[{host}]:{port}"),
        _ => format!("{host}:{port}"),
    }
}

fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.parse::<IpAddr>().is_ok() || (host.len() <= 253 && host.split('.').all(is_label))
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    let longest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= longest)
}

/// Whether a text can stand in settings, units and URLs without quoting.
fn is_plain(text: &str, more: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') && is_plain(text, "/._-")
}

impl Topology {
    /// Parses and verifies a description.
    ///
    /// # Errors
    /// All problems, one a line.
    pub(super) fn parse(text: &str) -> Result<Topology, String> {
        let topology: Topology = toml::from_str(text).map_err(|e| e.to_string())?;
        let problems = topology.problems();
        if problems.is_empty() {
            Ok(topology)
        } else {
            Err(problems.join("\n"))
        }
    }

    /// The hosts of a role.
    pub(super) fn hosts_of(&self, role: Role) -> &[String] {
        match role {
            Role::Pd => &self.pd,
            Role::Tikv => &self.tikv,
            Role::Porpoise => &self.porpoise,
        }
    }

    /// The roles of each host.
    pub(super) fn hosts(&self) -> BTreeMap<&str, BTreeSet<Role>> {
        let mut hosts: BTreeMap<&str, BTreeSet<Role>> = BTreeMap::new();
        for role in [Role::Pd, Role::Tikv, Role::Porpoise] {
            for host in self.hosts_of(role) {
                hosts.entry(host).or_default().insert(role);
            }
        }
        hosts
    }

    /// The ports of a role.
    pub(super) fn ports_of(&self, role: Role) -> Vec<OpenPort> {
        let p = &self.ports;
        let open = |port, purpose, peers| OpenPort {
            port,
            purpose,
            peers,
        };
        match role {
            Role::Pd => vec![
                open(
                    p.pd_client,
                    "placement driver: timestamps, regions",
                    Peers::Cluster,
                ),
                open(p.pd_peer, "placement driver: its peers", Peers::Cluster),
            ],
            Role::Tikv => vec![
                open(p.tikv, "store: rows", Peers::Cluster),
                open(p.tikv_status, "store: metrics", Peers::Cluster),
            ],
            Role::Porpoise => vec![
                open(p.mysql, "MySQL protocol", Peers::Clients),
                open(p.memcached, "memcached protocol", Peers::Clients),
                open(p.http, "health, metrics", Peers::Cluster),
            ],
        }
    }

    fn problems(&self) -> Vec<String> {
        let mut found = self.host_problems();
        let mut check = |is_right: bool, text: String| {
            if !is_right {
                found.push(text);
            }
        };
        check(
            is_plain(&self.name, "._-") && self.name.len() <= 64,
            format!(
                "name = {:?}: expected at most 64 letters, digits, dots, hyphens and underscores",
                self.name
            ),
        );
        check(
            matches!(self.pd.len(), 1 | 3 | 5 | 7),
            format!(
                "pd: {} hosts; expected 3, 5 or 7, so that a majority remains when one is lost (1 for tests)",
                self.pd.len()
            ),
        );
        check(
            matches!(self.replicas, 1 | 3 | 5 | 7),
            format!(
                "replicas = {}: expected 3, 5 or 7 (1 for tests)",
                self.replicas
            ),
        );
        check(
            self.tikv.len() >= self.replicas,
            format!(
                "tikv: {} hosts for {} replicas; expected at least as many",
                self.tikv.len(),
                self.replicas
            ),
        );
        check(!self.porpoise.is_empty(), "porpoise: no host".into());
        check(
            is_plain(&self.user, "_-") && self.user != "root",
            format!(
                "user = {:?}: expected the name of an account that is not root",
                self.user
            ),
        );
        check(
            is_path(&self.data_dir),
            format!(
                "data_dir = {:?}: expected an absolute path of letters, digits, dots, hyphens and underscores",
                self.data_dir
            ),
        );
        if let Some(cache) = &self.tikv_cache {
            let digits = cache.trim_end_matches("GiB").trim_end_matches("MiB");
            let is_size = digits.len() + 3 == cache.len() && digits.parse::<u32>().is_ok();
            check(
                is_size,
                format!("tikv_cache = {cache:?}: expected a size such as 8GiB or 512MiB"),
            );
        }
        found.extend(self.path_problems());
        found
    }

    /// Malformed networks and paths.
    fn path_problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut check = |is_right: bool, text: String| {
            if !is_right {
                found.push(text);
            }
        };
        for network in self.client_networks.iter().chain(&self.cluster_networks) {
            check(
                is_network(network),
                format!("{network:?} is not a network like 10.0.0.0/8"),
            );
        }
        if let Some(tls) = &self.tls {
            for (name, path) in [("ca", &tls.ca), ("cert", &tls.cert), ("key", &tls.key)] {
                check(
                    is_path(path),
                    format!(
                        "tls.{name} = {path:?}: expected an absolute path of letters, digits, dots, hyphens and underscores"
                    ),
                );
            }
        }
        found
    }

    /// Malformed or repeated names, and ports that two roles of a host use.
    fn host_problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        for role in [Role::Pd, Role::Tikv, Role::Porpoise] {
            let mut seen = BTreeSet::new();
            for host in self.hosts_of(role) {
                if !is_host(host) {
                    found.push(format!("{host:?} is not a host"));
                }
                if !seen.insert(host) {
                    found.push(format!("{host} is named twice in one role"));
                }
            }
        }
        for (host, roles) in self.hosts() {
            let mut used = BTreeMap::new();
            for open in roles.into_iter().flat_map(|role| self.ports_of(role)) {
                if open.port == 0 {
                    found.push(format!("{}: port 0", open.purpose));
                } else if let Some(other) = used.insert(open.port, open.purpose) {
                    found.push(format!(
                        "{host}: port {} for two purposes: {other}; {}",
                        open.port, open.purpose
                    ));
                }
            }
        }
        found
    }

    /// Warnings: valid settings that are not advisable.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut warn = |applies: bool, text: &str| {
            if applies {
                found.push(text.to_owned());
            }
        };
        warn(
            self.pd.len() == 1,
            "one placement driver: the cluster stops when it stops",
        );
        warn(
            self.replicas == 1,
            "one replica: the loss of a store loses rows",
        );
        warn(
            self.porpoise.len() == 1,
            "one Porpoise server: clients have no server while it is restarted",
        );
        warn(
            self.tls.is_none(),
            "no TLS: rows cross the network unencrypted",
        );
        let shares = |host: &String| self.tikv.contains(host);
        warn(
            self.porpoise.iter().any(shares),
            "a Porpoise server shares a host with a store: limit the store's memory with tikv_cache",
        );
        warn(
            self.client_networks.is_empty() || self.cluster_networks.is_empty(),
            "client_networks or cluster_networks is empty: the firewall rules admit no network to those ports",
        );
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(in crate::cluster) const EXAMPLE: &str = include_str!("example.toml");

    #[test]
    fn the_example_is_valid_with_and_without_its_comments() {
        let topology = Topology::parse(EXAMPLE).unwrap();
        assert_eq!(topology.ports.tikv, 20160);
        let optional = |line: &str| {
            let rest = line.strip_prefix("# ")?;
            let is_setting = rest.starts_with('[') || rest.contains(" = ");
            is_setting.then(|| rest.to_owned())
        };
        let all: Vec<String> = EXAMPLE
            .lines()
            .map(|line| optional(line).unwrap_or_else(|| line.to_owned()))
            .collect();
        let full = Topology::parse(&all.join("\n")).unwrap();
        assert_eq!(full.tikv_cache.as_deref(), Some("8GiB"));
        assert!(full.tls.is_some());
    }

    fn problem(change: (&str, &str)) -> String {
        let text = EXAMPLE.replace(change.0, change.1);
        assert_ne!(text, EXAMPLE, "{change:?}");
        Topology::parse(&text).unwrap_err()
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (old, new, expected) in [
            ("\"db3.example.net\"]        #", "]   #", "pd: 2 hosts"),
            (
                "replicas = 3",
                "replicas = 5",
                "tikv: 3 hosts for 5 replicas",
            ),
            ("replicas = 3", "replicas = 2", "replicas = 2"),
            (
                "\"app2.example.net\"",
                "\"app1.example.net\"",
                "app1.example.net is named twice",
            ),
            (
                "\"app2.example.net\"",
                "\"app 2\"",
                "\"app 2\" is not a host",
            ),
            ("name = \"example\"", "name = \"a&b\"", "name = \"a&b\""),
            ("user = \"porpoise\"", "user = \"root\"", "not root"),
            (
                "\"/var/lib/porpoise-cluster\"",
                "\"data\"",
                "an absolute path",
            ),
            (
                "# [ports]\n# pd_client = 2379",
                "[ports]\npd_client = 20160",
                "port 20160 for two purposes",
            ),
            (
                "[\"10.0.0.0/8\"]\ncluster",
                "[\"10.0.0.0/33\"]\ncluster",
                "not a network",
            ),
            ("tenant = 0", "tenants = 0", "tenants"),
        ] {
            let found = problem((old, new));
            assert!(found.contains(expected), "{new}: {found}");
        }
    }

    #[test]
    fn addresses_of_version_6_are_bracketed() {
        assert_eq!(with_port("fd00::1", 1), "[fd00::1]:1");
        assert_eq!(with_port("a.b", 1), "a.b:1");
        assert!(is_host("fd00::1") && !is_host("-a") && !is_host("a..b"));
    }
}
