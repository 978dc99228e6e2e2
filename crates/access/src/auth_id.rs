//! Names of accounts and roles, and the hosts that they match (manual, "Specifying Account Names").

use porpoise_types::Collation;

/// The name of an account or role.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AuthId {
    /// The user.
    pub user: String,
    /// The host.
    pub host: String,
}

impl AuthId {
    /// Whether the host pattern of this account matches a client's `host`.
    pub fn matches_host(&self, host: &str) -> bool {
        host_matches(&self.host, host)
    }

    /// The name of this user and host.
    pub fn new(user: &str, host: &str) -> AuthId {
        AuthId {
            user: user.to_owned(),
            host: host.to_owned(),
        }
    }

    /// Parses `user@host`; the host is `%` if there is no `@`.
    pub fn parse(account: &str) -> AuthId {
        let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
        AuthId::new(user, host)
    }

    /// Parses a list such as `mandatory_roles`: names separated by commas, user and host
    /// optionally in quotes or backticks, host `%` if absent.
    pub fn parse_list(list: &str) -> Vec<AuthId> {
        let mut ids = Vec::new();
        let mut parts = vec![String::new()];
        let mut quote = None;
        for c in list.chars().chain([',']) {
            match (quote, c) {
                (Some(q), c) if q == c => quote = None,
                (None, '\'' | '"' | '`') => quote = Some(c),
                (None, '@') => parts.push(String::new()),
                (None, ',') => {
                    let mut names = parts.iter().map(|p| p.trim());
                    let user = names.next().unwrap_or_default();
                    let host = names.next().filter(|h| !h.is_empty()).unwrap_or("%");
                    if !user.is_empty() {
                        ids.push(AuthId::new(user, &host.to_lowercase()));
                    }
                    parts = vec![String::new()];
                }
                (_, c) => {
                    if let Some(part) = parts.last_mut() {
                        part.push(c);
                    }
                }
            }
        }
        ids
    }
}

impl std::fmt::Display for AuthId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        write!(f, "{}@{}", quoted(&self.user), quoted(&self.host))
    }
}

/// Length of a host pattern's literal prefix, `usize::MAX` without wildcards: longer is more
/// specific.
pub(crate) fn specificity(host: &str) -> usize {
    match host.find(['%', '_']) {
        None => usize::MAX,
        Some(at) => at,
    }
}

fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1" | "")
}

pub(crate) fn host_matches(pattern: &str, host: &str) -> bool {
    pattern.eq_ignore_ascii_case(host)
        || (pattern == "localhost" && is_local(host))
        || Collation::UTF8MB4_GENERAL_CI.like(host.as_bytes(), pattern.as_bytes(), Some('\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_may_be_quoted() {
        let ids = AuthId::parse_list("a, `b,c`@'H%' ,'d'@\"x@y\",");
        let expected = [("a", "%"), ("b,c", "h%"), ("d", "x@y")];
        assert_eq!(ids, expected.map(|(u, h)| AuthId::new(u, h)));
        assert!(AuthId::parse_list(" ").is_empty());
    }
}
