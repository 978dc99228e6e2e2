//! The files that are generated from a description: settings, systemd units, firewall rules, and two pages for the operator.
//!
//! Invariant: equal descriptions give equal bytes.

use super::topology::{OpenPort, Peers, Role, Topology, with_port};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Files by path, relative to the output directory.
pub(super) type Files = BTreeMap<String, String>;

/// Directory of settings on the hosts.
const SETTINGS_DIR: &str = "/etc/porpoise-cluster";

/// All files.
pub(super) fn all(topology: &Topology) -> Files {
    let mut files = Files::new();
    for (host, roles) in topology.hosts() {
        let directory = host.replace(':', "_");
        for role in &roles {
            let name = name_of(*role);
            let settings = match role {
                Role::Pd => pd(topology, host),
                Role::Tikv => tikv(topology, host),
                Role::Porpoise => porpoise(topology, host),
            };
            files.insert(format!("{directory}/{name}.toml"), settings);
            let unit = unit(topology, *role);
            files.insert(format!("{directory}/{}.service", unit_name(*role)), unit);
        }
        let open: Vec<OpenPort> = roles.iter().flat_map(|r| topology.ports_of(*r)).collect();
        files.insert(
            format!("{directory}/firewall.nft"),
            firewall(topology, &open),
        );
    }
    files.insert("START.md".into(), start(topology));
    files.insert("PORTS.md".into(), ports(topology));
    files
}

fn name_of(role: Role) -> &'static str {
    match role {
        Role::Pd => "pd",
        Role::Tikv => "tikv",
        Role::Porpoise => "porpoise",
    }
}

fn unit_name(role: Role) -> &'static str {
    match role {
        Role::Pd => "porpoise-pd",
        Role::Tikv => "porpoise-tikv",
        Role::Porpoise => "porpoise-cluster",
    }
}

fn scheme(topology: &Topology) -> &'static str {
    if topology.tls.is_some() {
        "https"
    } else {
        "http"
    }
}

/// The addresses of all placement drivers.
fn drivers(topology: &Topology) -> Vec<String> {
    let port = topology.ports.pd_client;
    topology
        .pd
        .iter()
        .map(|host| with_port(host, port))
        .collect()
}

/// Value of `--engine` of the servers.
pub(super) fn engine(topology: &Topology) -> String {
    let mut url = format!(
        "tikv://{}?name={}&tenant={}",
        drivers(topology).join(","),
        topology.name,
        topology.tenant
    );
    if let Some(tls) = &topology.tls {
        let _ = write!(url, "&ca={}&cert={}&key={}", tls.ca, tls.cert, tls.key);
    }
    url
}

/// An address on which a part listens on all interfaces of its host.
fn everywhere(host: &str, port: u16) -> String {
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    with_port(if is_v6 { "::" } else { "0.0.0.0" }, port)
}

fn pd(topology: &Topology, host: &str) -> String {
    let scheme = scheme(topology);
    let p = &topology.ports;
    let member = |h: &String| format!("{}={scheme}://{}", pd_name(h), with_port(h, p.pd_peer));
    let members: Vec<String> = topology.pd.iter().map(member).collect();
    let security = match &topology.tls {
        Some(tls) => format!(
            "\n[security]\ncacert-path = \"{}\"\ncert-path = \"{}\"\nkey-path = \"{}\"\n",
            tls.ca, tls.cert, tls.key
        ),
        None => String::new(),
    };
    format!(
        "\
name = \"{name}\"
data-dir = \"{data}/pd\"
client-urls = \"{scheme}://{all_client}\"
advertise-client-urls = \"{scheme}://{client}\"
peer-urls = \"{scheme}://{all_peer}\"
advertise-peer-urls = \"{scheme}://{peer}\"
initial-cluster = \"{members}\"
initial-cluster-state = \"new\"
# Another member takes over about 3 s after the leader was killed, with PD's own settings about 12 s. Raise these values on
# machines whose disks or processors may stall for half a second.
tick-interval = \"100ms\"
election-interval = \"700ms\"
lease = 1

[replication]
max-replicas = {replicas}
location-labels = [\"host\"]
{security}",
        name = pd_name(host),
        data = topology.data_dir,
        all_client = everywhere(host, p.pd_client),
        client = with_port(host, p.pd_client),
        all_peer = everywhere(host, p.pd_peer),
        peer = with_port(host, p.pd_peer),
        members = members.join(","),
        replicas = topology.replicas,
    )
}

fn pd_name(host: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("pd-{}", host.chars().map(plain).collect::<String>())
}

fn tikv(topology: &Topology, host: &str) -> String {
    let p = &topology.ports;
    let quoted: Vec<String> = drivers(topology)
        .iter()
        .map(|a| format!("\"{a}\""))
        .collect();
    let mut text = format!(
        "\
[server]
addr = \"{all}\"
advertise-addr = \"{own}\"
status-addr = \"{all_status}\"
advertise-status-addr = \"{status}\"

[server.labels]
host = \"{host}\"

[pd]
endpoints = [{drivers}]

[storage]
data-dir = \"{data}/tikv\"
",
        all = everywhere(host, p.tikv),
        own = with_port(host, p.tikv),
        all_status = everywhere(host, p.tikv_status),
        status = with_port(host, p.tikv_status),
        host = host.replace([':', '.'], "-"),
        drivers = quoted.join(", "),
        data = topology.data_dir,
    );
    if let Some(cache) = &topology.tikv_cache {
        let _ = write!(text, "\n[storage.block-cache]\ncapacity = \"{cache}\"\n");
    }
    if let Some(tls) = &topology.tls {
        let _ = write!(
            text,
            "\n[security]\nca-path = \"{}\"\ncert-path = \"{}\"\nkey-path = \"{}\"\n",
            tls.ca, tls.cert, tls.key
        );
    }
    text
}

fn porpoise(topology: &Topology, host: &str) -> String {
    let p = &topology.ports;
    format!(
        "\
engine = \"{engine}\"
data_dir = \"{data}/porpoise\"
cluster_address = \"{own}\"
mysql_listen = \"{mysql}\"
memcached_listen = \"{memcached}\"
memcached_tls = \"required\"
http_listen = \"{http}\"
",
        engine = engine(topology),
        data = topology.data_dir,
        own = with_port(host, p.mysql),
        mysql = everywhere(host, p.mysql),
        memcached = everywhere(host, p.memcached),
        http = everywhere(host, p.http),
    )
}

/// A systemd unit. It waits for the network only: each program retries by itself until the programs that it needs, on whichever
/// host, are ready.
fn unit(topology: &Topology, role: Role) -> String {
    let name = name_of(role);
    let settings = format!("{SETTINGS_DIR}/{name}.toml");
    let (what, kind, command) = match role {
        Role::Pd => (
            "placement driver",
            "simple",
            format!("/usr/bin/pd-server --config={settings}"),
        ),
        Role::Tikv => (
            "store",
            "simple",
            format!("/usr/bin/tikv-server --config={settings}"),
        ),
        Role::Porpoise => (
            "Porpoise server",
            "notify",
            format!("/usr/bin/porpoise serve --config {settings}"),
        ),
    };
    // A store whose files are full or damaged must not restart for ever.
    format!(
        "\
[Unit]
Description=Cluster {cluster}: {what}
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=600
StartLimitBurst=20

[Service]
Type={kind}
ExecStart={command}
EnvironmentFile=-{SETTINGS_DIR}/environment
User={user}
Group={user}
Restart=on-failure
RestartSec=5
TimeoutStartSec=infinity
TimeoutStopSec=120
LimitNOFILE=1000000
LimitCORE=0
ReadWritePaths={data}
NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectHome=yes
ProtectSystem=strict
ProtectControlGroups=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictSUIDSGID=yes
UMask=0077

[Install]
WantedBy=multi-user.target
",
        cluster = topology.name,
        user = topology.user,
        data = topology.data_dir,
    )
}

fn networks(topology: &Topology, peers: Peers) -> &[String] {
    match peers {
        Peers::Cluster => &topology.cluster_networks,
        Peers::Clients => &topology.client_networks,
    }
}

/// An nftables table that drops packets to the cluster's ports from other networks, and leaves all other ports to the rest
/// of the firewall.
fn firewall(topology: &Topology, open: &[OpenPort]) -> String {
    let mut rules = String::new();
    for port in open {
        let _ = writeln!(rules, "        # {}", port.purpose);
        for network in networks(topology, port.peers) {
            let family = if network.contains(':') { "ip6" } else { "ip" };
            let _ = writeln!(
                rules,
                "        {family} saddr {network} tcp dport {} accept",
                port.port
            );
        }
        let _ = writeln!(rules, "        tcp dport {} drop", port.port);
    }
    format!(
        "\
#!/usr/sbin/nft -f
table inet porpoise_cluster
delete table inet porpoise_cluster
table inet porpoise_cluster {{
    chain input {{
        type filter hook input priority filter; policy accept;
        iif lo accept
{rules}    }}
}}
"
    )
}

/// The table of ports.
fn ports(topology: &Topology) -> String {
    let mut text = format!(
        "# Ports of the cluster {}\n\nThe rules are in each host's firewall.nft.\n\n| host | port | purpose | from |\n|---|---|---|---|\n",
        topology.name
    );
    for (host, roles) in topology.hosts() {
        for open in roles.iter().flat_map(|r| topology.ports_of(*r)) {
            let from = networks(topology, open.peers).join(", ");
            let from = if from.is_empty() { "no network" } else { &from };
            let _ = writeln!(
                text,
                "| {host} | {} | {} | {from} |",
                open.port, open.purpose
            );
        }
    }
    text
}

/// Commands that start a role on its hosts.
fn start_commands(topology: &Topology, role: Role) -> String {
    let mut lines = String::new();
    for host in topology.hosts_of(role) {
        let unit = unit_name(role);
        let _ = writeln!(lines, "    ssh {host} systemctl enable --now {unit}");
    }
    lines
}

/// The order in which everything is installed and started.
fn start(topology: &Topology) -> String {
    let (user, data) = (&topology.user, &topology.data_dir);
    let tls = match &topology.tls {
        Some(tls) => format!(
            "Put the certificates at {}, {} and {} on every host, readable for {user} only.\n",
            tls.ca, tls.cert, tls.key
        ),
        None => String::new(),
    };
    let (driver, scheme) = (
        drivers(topology).into_iter().next().unwrap_or_default(),
        scheme(topology),
    );
    let (first, others) = match topology.porpoise.split_first() {
        Some((first, others)) => (first.clone(), others.join(", ")),
        None => (String::new(), String::new()),
    };
    let mysql = topology.ports.mysql;
    format!(
        "\
# Start of the cluster {name}

1. On every host: install `/usr/bin/pd-server` and `/usr/bin/tikv-server` (TiKV 7.1 or later) and `/usr/bin/porpoise`,
   as far as its directory here has settings for them. Then

       useradd --system {user}
       install -d -o {user} -g {user} -m 0700 {data}
       install -d -m 0755 {SETTINGS_DIR}

   Copy the host's `*.toml` to {SETTINGS_DIR}, its `*.service` to /etc/systemd/system, and load its firewall rules:
   `nft -f firewall.nft`. Run `systemctl daemon-reload`. {tls}
2. Placement drivers, all of them, within a minute or so: each waits for a majority.

{pd}
   They are ready when `curl {scheme}://{driver}/pd/api/v1/health` names {drivers} healthy members.
3. Stores.

{tikv}
   They are ready when `curl {scheme}://{driver}/pd/api/v1/stores` names {stores} stores that are Up.
4. One Porpoise server, which creates the accounts: put `PORPOISE_ROOT_PASSWORD=...` into
   {SETTINGS_DIR}/environment on {first} for this start, and remove it afterwards.

       ssh {first} systemctl enable --now {unit}

   It is ready when `porpoise sql -h {first} -P {mysql} -u root -p -e 'SELECT * FROM information_schema.CLUSTER_SERVERS'`
   shows it.
5. The other Porpoise servers: {others}

{porpoise}
Stop in the reverse order. After a change of the description run `porpoise cluster generate` again, copy the files that
it lists as changed, and restart one host at a time: placement drivers, stores, servers. A placement driver that is added
later joins with `join` instead of `initial-cluster` (TiKV's guide, \"Scale a cluster\").
",
        name = topology.name,
        pd = start_commands(topology, Role::Pd),
        drivers = topology.pd.len(),
        tikv = start_commands(topology, Role::Tikv),
        stores = topology.tikv.len(),
        unit = unit_name(Role::Porpoise),
        porpoise = start_commands(topology, Role::Porpoise),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, EngineChoice, Values};

    const EXAMPLE: &str = include_str!("example.toml");

    fn with_tls() -> Topology {
        let text = EXAMPLE
            .replace("# [tls]", "[tls]")
            .replace("# ca =", "ca =")
            .replace("# cert =", "cert =")
            .replace("# key =", "key =");
        Topology::parse(&text).unwrap()
    }

    #[test]
    fn each_host_gets_the_files_of_its_roles() {
        let files = all(&Topology::parse(EXAMPLE).unwrap());
        let of = |host: &str| -> Vec<&str> {
            let prefix = format!("{host}/");
            files
                .keys()
                .filter_map(|f| f.strip_prefix(&prefix))
                .collect()
        };
        assert_eq!(
            of("db2.example.net"),
            [
                "firewall.nft",
                "pd.toml",
                "porpoise-pd.service",
                "porpoise-tikv.service",
                "tikv.toml"
            ]
        );
        assert_eq!(
            of("app1.example.net"),
            ["firewall.nft", "porpoise-cluster.service", "porpoise.toml"]
        );
        assert_eq!(files, all(&Topology::parse(EXAMPLE).unwrap()));
    }

    #[test]
    fn a_server_reads_its_settings() {
        let files = all(&with_tls());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("porpoise.toml");
        std::fs::write(&path, &files["app2.example.net/porpoise.toml"]).unwrap();
        let config = config::resolve(&Values::new(), &|_| None, Some(&path)).unwrap();
        let EngineChoice::Tikv(url) = config.engine else {
            panic!("not a cluster");
        };
        assert_eq!(url.addresses.len(), 3);
        assert_eq!(url.name.as_deref(), Some("example"));
        assert_eq!(url.ca, Some("/etc/porpoise/tls/ca.pem".into()));
        assert_eq!(
            config.cluster_address.as_deref(),
            Some("app2.example.net:3306")
        );
    }

    #[test]
    fn settings_of_placement_drivers_and_stores_name_each_other() {
        let files = all(&with_tls());
        let read = |name: &str| -> toml::Table { files[name].parse().unwrap() };
        let pd = read("db1.example.net/pd.toml");
        let members = pd["initial-cluster"].as_str().unwrap();
        assert_eq!(members.split(',').count(), 3);
        assert!(
            members.contains("pd-db3-example-net=https://db3.example.net:2380"),
            "{members}"
        );
        assert_eq!(
            pd["security"]["cacert-path"].as_str(),
            Some("/etc/porpoise/tls/ca.pem")
        );
        // etcd refuses an election time below five ticks.
        let millis = |name: &str| -> u32 {
            let text = pd[name].as_str().unwrap();
            text.strip_suffix("ms").unwrap().parse().unwrap()
        };
        assert!(millis("election-interval") >= 5 * millis("tick-interval"));
        assert_eq!(pd["lease"].as_integer(), Some(1));
        let tikv = read("db1.example.net/tikv.toml");
        assert_eq!(tikv["pd"]["endpoints"].as_array().unwrap().len(), 3);
        assert_eq!(
            tikv["server"]["advertise-addr"].as_str(),
            Some("db1.example.net:20160")
        );
    }

    #[test]
    fn every_port_is_closed_to_strangers() {
        let files = all(&Topology::parse(EXAMPLE).unwrap());
        let rules = &files["app1.example.net/firewall.nft"];
        for port in [3306, 11211, 8380] {
            let accept = format!("ip saddr 10.0.0.0/8 tcp dport {port} accept");
            let drop = format!("tcp dport {port} drop");
            let (accept, drop) = (rules.find(&accept), rules.find(&drop));
            assert!(accept.unwrap() < drop.unwrap(), "{rules}");
        }
        assert!(files["PORTS.md"].contains("| db1.example.net | 2379 |"));
    }

    #[test]
    fn units_are_valid_if_systemd_can_say_so() {
        let directory = tempfile::tempdir().unwrap();
        let files = all(&Topology::parse(EXAMPLE).unwrap());
        for role in [Role::Pd, Role::Tikv, Role::Porpoise] {
            let name = format!("{}.service", unit_name(role));
            let host = if role == Role::Porpoise {
                "app1.example.net"
            } else {
                "db1.example.net"
            };
            // The programs are not installed here.
            let unit = &files[&format!("{host}/{name}")];
            let command = unit.lines().find(|l| l.starts_with("ExecStart=")).unwrap();
            let unit = unit
                .replace(command, "ExecStart=/bin/true")
                .replace("=porpoise\n", "=root\n");
            let path = directory.path().join(&name);
            std::fs::write(&path, unit).unwrap();
            let verified = std::process::Command::new("systemd-analyze")
                .args(["verify", "--man=no"])
                .arg(&path)
                .output();
            let Ok(verified) = verified else {
                return;
            };
            let output = String::from_utf8_lossy(&verified.stderr);
            assert!(!output.contains(&name), "{output}");
        }
    }
}
