//! Rules for requests of browsers, and the headers of all responses.
//!
//! * *DNS rebinding*: the Host header must name this machine's loopback, the address at which the
//!   client has reached the listener, or a name of `--console-hosts`. A page of a foreign name that
//!   resolves to this machine is refused.
//! * *Cross-site requests*: a request that changes something must come from the console's own page:
//!   by its Origin and Sec-Fetch-Site where the browser sends them, by its content type, which a
//!   form of another site cannot send, and, after the login, by the login's token
//!   (`X-CSRF-Token`). Cookies are SameSite=Strict besides.
//! * *Scripts*: the Content-Security-Policy allows the page's own files only, no inline script or
//!   style, no frame around the page, and no string as HTML (Trusted Types).

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use std::net::IpAddr;

/// Headers of all responses of the console.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Adds the headers of all responses.
pub(super) fn protect(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}

/// The only value of a header; `None` if it is missing, repeated or not text.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The Host header.
pub(super) fn host_of(headers: &HeaderMap) -> Option<&str> {
    single(headers, header::HOST)
}

/// The host of `HOST` or `HOST:PORT`; an IPv6 address without its brackets.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            (
                address,
                port.strip_prefix(':').or(port.is_empty().then_some("0")),
            )
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, Some("0")),
        },
    };
    port?.parse::<u16>().ok()?;
    Some(name)
}

/// Whether the console is served under this Host header, at a connection whose own address is
/// `local`.
pub(super) fn is_allowed_host(host: Option<&str>, local: IpAddr, names: &[String]) -> bool {
    let Some(name) = host.and_then(without_port) else {
        return false;
    };
    let name = name.to_ascii_lowercase();
    if let Ok(address) = name.parse::<IpAddr>() {
        let address = address.to_canonical();
        let own = local.to_canonical();
        return address == own
            || (address.is_loopback() && own.is_loopback())
            || names.contains(&name);
    }
    name == "localhost" || names.contains(&name)
}

/// Whether a request that changes something comes from a page of this host, or from no browser.
pub(super) fn is_own_origin(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    if site.is_some_and(|site| site != "same-origin") {
        return false;
    }
    if !headers.contains_key(header::ORIGIN) {
        return true;
    }
    let origin = single(headers, header::ORIGIN).unwrap_or_default();
    let authority = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    match (authority, host_of(headers)) {
        (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// Whether the body is declared to be JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let kind = single(headers, header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// The value of a cookie.
pub(super) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let cookies = headers.get_all(header::COOKIE).iter();
    cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value)
}

/// Compares two texts in a time that does not depend on where they differ.
pub(super) fn is_same_secret(a: &str, b: &str) -> bool {
    let differing = a
        .bytes()
        .zip(b.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn hosts_that_can_be_rebound_are_refused() {
        let names = ["db.example.org".to_owned(), "10.9.9.9".to_owned()];
        let allowed =
            |host: &str, local: &str| is_allowed_host(Some(host), local.parse().unwrap(), &names);
        for host in [
            "localhost",
            "LOCALHOST:8380",
            "127.0.0.1",
            "127.0.0.1:8380",
            "[::1]:1",
            "[::1]",
            "db.example.org:80",
            "DB.example.org",
            "10.9.9.9:8380",
        ] {
            assert!(allowed(host, "127.0.0.1"), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a.localhost",
            "db.example.org.evil.example",
            "192.168.1.1",
            "localhost:x",
            "localhost:1:2",
            "[::1",
            "[::1]x",
            "localhost:99999",
            "127.0.0.1@evil.example",
            "2130706433",
            "localhost.",
        ] {
            assert!(!allowed(host, "127.0.0.1"), "{host}");
        }
        assert!(allowed("192.168.1.1:8380", "192.168.1.1"));
        assert!(allowed("192.168.1.1:8380", "::ffff:192.168.1.1"));
        assert!(!allowed("127.0.0.1", "192.168.1.1"));
        assert!(!is_allowed_host(None, "127.0.0.1".parse().unwrap(), &names));
        let twice = headers(&[("host", "localhost"), ("host", "evil.example")]);
        assert_eq!(host_of(&twice), None);
    }

    #[test]
    fn requests_of_other_sites_are_recognized() {
        let host = ("host", "localhost:8380");
        let own = |list: &[(&'static str, &str)]| is_own_origin(&headers(list));
        assert!(own(&[host]));
        assert!(own(&[host, ("origin", "http://localhost:8380")]));
        assert!(own(&[
            host,
            ("origin", "https://LOCALHOST:8380"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(!own(&[host, ("origin", "http://localhost:8381")]));
        assert!(!own(&[host, ("origin", "null")]));
        assert!(!own(&[host, ("origin", "http://evil.example")]));
        assert!(!own(&[
            host,
            ("origin", "http://localhost:8380"),
            ("origin", "http://evil.example")
        ]));
        assert!(!own(&[host, ("sec-fetch-site", "cross-site")]));
        assert!(!own(&[host, ("sec-fetch-site", "same-site")]));
        assert!(is_json(&headers(&[(
            "content-type",
            "application/JSON; charset=utf-8"
        )])));
        assert!(!is_json(&headers(&[("content-type", "text/plain")])));
        assert!(!is_json(&headers(&[])));
    }

    #[test]
    fn cookies_are_found_among_others() {
        let sent = headers(&[("cookie", "a=1; porpoise=x=y"), ("cookie", "b=2")]);
        assert_eq!(cookie(&sent, "porpoise"), Some("x=y"));
        assert_eq!(cookie(&sent, "b"), Some("2"));
        assert_eq!(cookie(&sent, "poise"), None);
        assert!(is_same_secret("ab", "ab"));
        assert!(!is_same_secret("ab", "ac") && !is_same_secret("ab", "a"));
    }
}
