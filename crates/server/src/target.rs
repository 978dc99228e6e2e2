//! The server that a command of this program works on, as an option of the command line names it.

use crate::config::StartError;
use porpoise_client::mysql::Target;
use porpoise_client::{Address, TlsOptions};
use porpoise_wire::mysql::client::login::Credentials;

/// Port of MySQL.
const DEFAULT_PORT: u16 = 3306;

/// A command's option that names a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerOption {
    /// The option, such as `--into`.
    pub name: &'static str,
    /// The command, which servers show as the program's name.
    pub program: &'static str,
}

/// Reads `HOST[:PORT]` or `mysql://USER[:PASSWORD]@HOST[:PORT]`. The user is `root` if none is named.
///
/// # Errors
/// One line, which does not repeat the text: it may contain a password.
pub fn parse(
    option: ServerOption,
    text: &str,
    password: Option<String>,
    tls: TlsOptions,
) -> Result<Target, StartError> {
    let malformed = || {
        let name = option.name;
        let message = format!("{name}: neither HOST:PORT nor mysql://USER:PASSWORD@HOST:PORT");
        StartError::usage(message)
    };
    let is_url = text.starts_with("mysql://");
    let rest = text.strip_prefix("mysql://").unwrap_or(text);
    let rest = rest.trim_end_matches('/');
    let (account, server) = rest.rsplit_once('@').unwrap_or(("root", rest));
    let (user, given) = account.split_once(':').unwrap_or((account, ""));
    let is_other_scheme = !is_url && rest.contains("://");
    if is_other_scheme || server.contains('/') || user.is_empty() {
        return Err(malformed());
    }
    let address = address(server).ok_or_else(malformed)?;
    let given = (!given.is_empty()).then(|| given.to_owned());
    let credentials = Credentials {
        user: user.as_bytes().to_vec(),
        password: given.or(password).unwrap_or_default().into_bytes(),
        attributes: vec![(b"program_name".to_vec(), option.program.as_bytes().to_vec())],
        ..Credentials::default()
    };
    let mut target = Target::new(address, credentials);
    target.tls = tls;
    Ok(target)
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`, the brackets for addresses of IPv6.
fn address(text: &str) -> Option<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            let port = match after {
                "" => None,
                after => Some(after.strip_prefix(':')?),
            };
            (host, port)
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    let port = port.map_or(Some(DEFAULT_PORT), |port| port.parse().ok())?;
    (!host.is_empty()).then(|| Address::Tcp(host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Result<Target, StartError> {
        let option = ServerOption {
            name: "--into",
            program: "porpoise import",
        };
        parse(option, text, Some("env".to_owned()), TlsOptions::default())
    }

    fn texts(target: &Target) -> (String, &str, &str) {
        let credentials = &target.credentials;
        (
            target.address.to_string(),
            std::str::from_utf8(&credentials.user).unwrap(),
            std::str::from_utf8(&credentials.password).unwrap(),
        )
    }

    #[test]
    fn targets_are_addresses_or_urls() {
        for (text, expected) in [
            ("db.example:3307", ("db.example:3307", "root", "env")),
            ("mysql://me:p@ss@[::1]:3307/", ("[::1]:3307", "me", "p@ss")),
            ("mysql://me@host", ("host:3306", "me", "env")),
            ("::1", ("[::1]:3306", "root", "env")),
        ] {
            let target = target(text).unwrap();
            let (address, user, password) = texts(&target);
            assert_eq!((&*address, user, password), expected, "{text}");
        }
    }

    #[test]
    fn the_error_of_a_malformed_target_repeats_no_password() {
        for wrong in [
            "",
            "http://me:secret@host:1",
            "mysql://me:secret@host/db",
            "mysql://me:secret@host:port",
            "mysql://me:secret@",
            "mysql://:secret@host",
            "me:secret@[::1:3306",
        ] {
            let error = target(wrong).unwrap_err();
            assert!(!error.message.contains("secret"), "{error}");
        }
    }
}
