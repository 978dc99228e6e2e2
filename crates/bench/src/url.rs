//! Targets named by URL: `SCHEME://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?NAME=VALUE&...]`.
//!
//! | scheme | system | default port |
//! |---|---|---|
//! | `mysql` | MySQL, MariaDB, or Porpoise's MySQL protocol alone | 3306 |
//! | `postgres`, `postgresql` | PostgreSQL | 5432 |
//! | `memcached` | memcached, or anything that speaks its text protocol | 11211 |
//! | `porpoise` | Porpoise, all protocols | 3306, `memcached=PORT` (11211), `native=PORT` |
//! | `noop` | Porpoise's network layer with nothing behind it | 11311 |
//!
//! Options: `name` (how reports call it), `pid` (its process, for CPU time),
//! `prefix` (in front of memcached keys).

use crate::error::{Error, Result};

/// Kind of a target's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// MySQL's protocol.
    Mysql,
    /// PostgreSQL.
    Postgres,
    /// memcached's protocol.
    Memcached,
    /// Porpoise by both protocols.
    Porpoise,
    /// Porpoise's network layer, which stores nothing.
    Noop,
}

/// A parsed target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Kind of the server.
    pub system: System,
    /// Name in reports.
    pub name: String,
    /// Host name or address.
    pub host: String,
    /// Port of the (SQL) protocol.
    pub port: u16,
    /// Port of memcached's protocol, where the system has both.
    pub memcached_port: u16,
    /// Port of the native protocol; 0 if it is not known.
    pub native_port: u16,
    /// User name.
    pub user: String,
    /// Password, possibly empty.
    pub password: String,
    /// Database in which the experiment makes its tables.
    pub database: String,
    /// Prefix of memcached keys.
    pub prefix: String,
    /// The server's process on this machine.
    pub pid: Option<u32>,
}

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    /// A usage error that names the malformed part.
    pub fn parse(url: &str) -> Result<Target> {
        let bad = |what: &str| Error::usage(format!("target {:?}: {what}", masked(url)));
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| bad("expected mysql://, postgres://, memcached:// or porpoise://"))?;
        let mut target = Target::of_scheme(scheme).ok_or_else(|| {
            bad("unknown scheme: use mysql, postgres, memcached, porpoise or noop")
        })?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        if !database.is_empty() {
            target.database = decode(database).ok_or_else(|| bad("bad %xx in the database"))?;
        }
        let address = match authority.rsplit_once('@') {
            None => authority,
            Some((login, address)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                target.user = decode(user).ok_or_else(|| bad("bad %xx in the user"))?;
                target.password = decode(password).ok_or_else(|| bad("bad %xx in the password"))?;
                address
            }
        };
        target
            .set_address(address)
            .ok_or_else(|| bad("expected HOST or HOST:PORT with a port between 1 and 65535"))?;
        for option in query.split('&').filter(|o| !o.is_empty()) {
            target
                .set_option(option)
                .ok_or_else(|| bad(&format!("bad option {option:?}")))?;
        }
        Ok(target)
    }

    fn of_scheme(scheme: &str) -> Option<Target> {
        let (system, name, port, user, database) = match scheme {
            "mysql" => (System::Mysql, "MySQL", 3306, "root", "porpoise_bench"),
            "postgres" | "postgresql" => {
                (System::Postgres, "PostgreSQL", 5432, "postgres", "postgres")
            }
            "memcached" => (System::Memcached, "memcached", 11211, "", ""),
            "porpoise" => (System::Porpoise, "Porpoise", 3306, "root", "porpoise_bench"),
            "noop" => (System::Noop, "no-op", 11311, "", ""),
            _ => return None,
        };
        Some(Target {
            system,
            name: name.to_owned(),
            host: "127.0.0.1".to_owned(),
            port,
            memcached_port: 11211,
            native_port: 0,
            user: user.to_owned(),
            password: String::new(),
            database: database.to_owned(),
            prefix: "kv:".to_owned(),
            pid: None,
        })
    }

    fn set_address(&mut self, address: &str) -> Option<()> {
        let (host, port) = if let Some(rest) = address.strip_prefix('[') {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':'))
        } else {
            match address.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            }
        };
        if let Some(port) = port {
            self.port = port.parse().ok().filter(|p| *p != 0)?;
        }
        if !host.is_empty() {
            self.host = host.to_owned();
        }
        Some(())
    }

    fn set_option(&mut self, option: &str) -> Option<()> {
        let (name, value) = option.split_once('=')?;
        let value = decode(value)?;
        match name {
            "name" if !value.is_empty() => self.name = value,
            "pid" => self.pid = Some(value.parse().ok()?),
            "prefix" => self.prefix = value,
            "native" => self.native_port = value.parse().ok().filter(|p| *p != 0)?,
            "memcached" => self.memcached_port = value.parse().ok().filter(|p| *p != 0)?,
            _ => return None,
        }
        Some(())
    }

    /// The URL without the password, for reports.
    pub fn shown(&self) -> String {
        let scheme = match self.system {
            System::Mysql => "mysql",
            System::Postgres => "postgres",
            System::Memcached => "memcached",
            System::Porpoise => "porpoise",
            System::Noop => "noop",
        };
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

/// A word of a command line with the password of a URL in it, if it has one,
/// replaced by `***`; anything else as it is.
pub fn masked(word: &str) -> String {
    let hidden = || {
        let (scheme, rest) = word.split_once("://")?;
        // A password may hold any of `/?@`, unescaped by mistake: the last @ ends it.
        let (login, address) = rest.rsplit_once('@')?;
        let (user, _) = login.split_once(':')?;
        Some(format!("{scheme}://{user}:***@{address}"))
    };
    hidden().unwrap_or_else(|| word.to_owned())
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_read() {
        let target =
            Target::parse("mysql://joe:p%40ss@db.example:3307/test?name=prod&pid=42").unwrap();
        assert_eq!(target.system, System::Mysql);
        assert_eq!(
            (target.user.as_str(), target.password.as_str()),
            ("joe", "p@ss")
        );
        assert_eq!((target.host.as_str(), target.port), ("db.example", 3307));
        assert_eq!(target.database, "test");
        assert_eq!((target.name.as_str(), target.pid), ("prod", Some(42)));
        assert_eq!(target.shown(), "mysql://db.example:3307");
    }

    #[test]
    fn passwords_are_not_shown() {
        for (word, shown) in [
            ("mysql://joe:s@h:1/t?name=x", "mysql://joe:***@h:1/t?name=x"),
            ("oracle://joe:s@h", "oracle://joe:***@h"),
            ("mysql://joe:s/?@h", "mysql://joe:***@h"),
            ("mysql://joe@h", "mysql://joe@h"),
            ("--rows", "--rows"),
        ] {
            assert_eq!(masked(word), shown);
        }
        for url in ["mysql://joe:secret@h:0", "oracle://joe:secret@h"] {
            let error = Target::parse(url).unwrap_err();
            assert!(!error.message.contains("secret"), "{error}");
        }
    }

    #[test]
    fn missing_parts_of_a_url_have_defaults() {
        let target = Target::parse("porpoise://?memcached=4000").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("127.0.0.1", 3306));
        assert_eq!(target.memcached_port, 4000);
        let target = Target::parse("memcached://[::1]:5").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 5));
    }

    #[test]
    fn a_bad_part_is_named() {
        for (url, word) in [
            ("127.0.0.1:3306", "expected"),
            ("oracle://h", "unknown scheme"),
            ("mysql://h:0", "port"),
            ("mysql://h:99999", "port"),
            ("mysql://h?colour=blue", "colour"),
            ("mysql://a%zz@h", "user"),
        ] {
            let error = Target::parse(url).unwrap_err();
            assert!(error.message.contains(word), "{error}");
            assert_eq!(error.exit_status(), 2);
        }
    }
}
