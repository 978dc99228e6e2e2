//! Objects in a bucket of an S3-compatible service: PUT, GET and ListObjectsV2 with signatures of
//! version 4 (AWS, "Authenticating Requests (AWS Signature Version 4)").
//!
//! Credentials, region and endpoint come from the environment, under the names that AWS's own tools
//! use. Requests address the bucket in the path, which all compatible services accept.
//!
//! Rejected: the crate object_store. Three requests do not need its dependencies: an HTTP client with an
//! asynchronous runtime, XML, URLs, dates.

use super::ObjectStore;
use crate::{Error, Result};
use aws_lc_rs::{digest, hmac};
use porpoise_base::calendar::civil_from_days;
use porpoise_client::http::{self, Endpoint, Limits, Request, Response};
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Attempts of a request that fails by the network or by an error of the service.
const ATTEMPTS: u32 = 4;

/// Pause before the second attempt; doubled before each further one.
const PAUSE: Duration = Duration::from_millis(250);

/// Limits of a request.
const LIMITS: Limits = Limits {
    wait: Duration::from_secs(30),
    response: 1 << 30,
};

/// Endpoint and credentials of a service.
#[derive(Clone)]
pub struct Service {
    endpoint: Endpoint,
    region: String,
    key_id: String,
    secret: String,
    token: Option<String>,
}

impl Service {
    /// The service that the environment names.
    ///
    /// # Errors
    /// [`Error::Refused`] for missing credentials or a malformed endpoint.
    pub fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Service> {
        let needed = |name: &str| {
            let value = variable(name).filter(|value| !value.is_empty());
            value.ok_or_else(|| Error::Refused(format!("s3: the variable {name} is not set")))
        };
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        Ok(Service {
            endpoint: Endpoint::parse(&endpoint)
                .ok_or_else(|| Error::Refused(format!("s3: {endpoint:?} is not an endpoint")))?,
            region,
            key_id: needed("AWS_ACCESS_KEY_ID")?,
            secret: needed("AWS_SECRET_ACCESS_KEY")?,
            token: variable("AWS_SESSION_TOKEN"),
        })
    }
}

/// Objects of a bucket.
pub struct Bucket {
    service: Service,
    bucket: String,
    prefix: String,
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Percent-encodes everything but unreserved characters; slashes only if `slashes`.
fn encode(text: &str, slashes: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        if plain || byte == b'/' && !slashes {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A time in seconds since 1970 as `YYYYMMDDTHHMMSSZ`.
fn timestamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_from_days(days.cast_signed());
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

fn sign(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

impl Service {
    /// The headers of a request, with its signature.
    fn headers(&self, request: &Request<'_>, time: &str) -> Vec<(&'static str, String)> {
        let body = hex(digest::digest(&digest::SHA256, request.body).as_ref());
        let mut headers = vec![
            ("host", self.endpoint.host()),
            ("x-amz-content-sha256", body.clone()),
            ("x-amz-date", time.to_owned()),
        ];
        if let Some(token) = &self.token {
            headers.push(("x-amz-security-token", token.clone()));
        }
        let (mut canonical, mut names) = (String::new(), String::new());
        for (name, value) in &headers {
            let _ = writeln!(canonical, "{name}:{value}");
            names.push_str(if names.is_empty() { "" } else { ";" });
            names.push_str(name);
        }
        let canonical = format!(
            "{}\n{}\n{}\n{canonical}\n{names}\n{body}",
            request.method, request.path, request.query
        );
        let day = time.get(..8).unwrap_or_default();
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [day, &self.region, "s3", "aws4_request"] {
            key = sign(&key, part);
        }
        let signature = hex(&sign(&key, &text));
        let id = &self.key_id;
        headers.push((
            "authorization",
            format!(
                "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
            ),
        ));
        headers
    }
}

impl Bucket {
    /// The objects of a bucket whose names begin with a prefix.
    pub fn new(service: Service, bucket: &str, prefix: &str) -> Bucket {
        Bucket {
            service,
            bucket: bucket.to_owned(),
            prefix: if prefix.is_empty() {
                String::new()
            } else {
                format!("{prefix}/")
            },
        }
    }

    fn path(&self, name: &str) -> String {
        encode(&format!("/{}/{}{name}", self.bucket, self.prefix), false)
    }

    /// Sends a request; repeats it after a failure of the network or of the service.
    fn send(&self, request: &Request<'_>) -> Result<Response> {
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let time = timestamp(now.unwrap_or_default().as_secs());
            let headers = self.service.headers(request, &time);
            let outcome = http::send(&self.service.endpoint, request, &headers, LIMITS);
            let problem = match outcome {
                Ok(response) if response.status < 500 && response.status != 429 => {
                    return Ok(response);
                }
                Ok(response) => format!("status {}", response.status),
                Err(error) => error.to_string(),
            };
            if attempt == ATTEMPTS {
                let host = self.service.endpoint.host();
                return Err(Error::Io(format!("s3 at {host}: {problem}")));
            }
            attempt += 1;
            std::thread::sleep(pause);
            pause *= 2;
        }
    }

    fn refused(&self, name: &str, response: &Response) -> Error {
        let text = String::from_utf8_lossy(&response.body);
        let code = between(&text, "<Code>", "</Code>").unwrap_or_default();
        let at = format!("s3://{}/{}{name}", self.bucket, self.prefix);
        Error::Io(format!("{at}: status {} {code}", response.status))
    }
}

/// The text between two marks, with XML's entities resolved.
fn between(text: &str, open: &str, close: &str) -> Option<String> {
    let (_, rest) = text.split_once(open)?;
    let (found, _) = rest.split_once(close)?;
    let plain = found.replace("&lt;", "<").replace("&gt;", ">");
    let plain = plain.replace("&quot;", "\"").replace("&apos;", "'");
    Some(plain.replace("&amp;", "&"))
}

impl ObjectStore for Bucket {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(name);
        let response = self.send(&Request {
            method: "PUT",
            path: &path,
            query: "",
            body: bytes,
        })?;
        match response.status {
            200..=299 => Ok(()),
            _ => Err(self.refused(name, &response)),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let response = self.send(&Request {
            method: "DELETE",
            path: &path,
            query: "",
            body: b"",
        })?;
        match response.status {
            200..=299 | 404 => Ok(()),
            _ => Err(self.refused(name, &response)),
        }
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(name);
        let response = self.send(&Request {
            method: "GET",
            path: &path,
            query: "",
            body: b"",
        })?;
        match response.status {
            200 => Ok(Some(response.body)),
            404 if !String::from_utf8_lossy(&response.body).contains("NoSuchBucket") => Ok(None),
            _ => Err(self.refused(name, &response)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let path = encode(&format!("/{}", self.bucket), false);
        let full = encode(&format!("{}{prefix}", self.prefix), true);
        let mut names = Vec::new();
        let mut token = String::new();
        loop {
            // Parameters are signed in the order of their names.
            let query = format!("{token}list-type=2&prefix={full}");
            let response = self.send(&Request {
                method: "GET",
                path: &path,
                query: &query,
                body: b"",
            })?;
            if response.status != 200 {
                return Err(self.refused(prefix, &response));
            }
            let text = String::from_utf8_lossy(&response.body).into_owned();
            for entry in text.split("<Contents>").skip(1) {
                let key = between(entry, "<Key>", "</Key>").unwrap_or_default();
                names.extend(key.strip_prefix(&self.prefix).map(str::to_owned));
            }
            match between(&text, "<NextContinuationToken>", "</NextContinuationToken>") {
                Some(next) => token = format!("continuation-token={}&", encode(&next, true)),
                None => break,
            }
        }
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS's documentation ("Signature Calculations for the Authorization Header",
    /// GET Bucket (List Objects)).
    #[test]
    fn a_request_has_the_documented_signature() {
        let service = Service {
            endpoint: Endpoint::parse("https://examplebucket.s3.amazonaws.com").unwrap(),
            region: "us-east-1".to_owned(),
            key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let request = Request {
            method: "GET",
            path: "/",
            query: "max-keys=2&prefix=J",
            body: b"",
        };
        let headers = service.headers(&request, "20130524T000000Z");
        let (_, authorization) = headers.last().unwrap();
        let signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert!(authorization.ends_with(signature), "{authorization}");
    }

    #[test]
    fn times_and_names_are_encoded() {
        assert_eq!(timestamp(0), "19700101T000000Z");
        assert_eq!(timestamp(1_369_353_600), "20130524T000000Z");
        assert_eq!(timestamp(1_709_210_096), "20240229T123456Z");
        assert_eq!(encode("a/b c+%", false), "a/b%20c%2B%25");
        assert_eq!(encode("a/b", true), "a%2Fb");
        assert_eq!(between("<K>a&amp;lt;</K>", "<K>", "</K>").unwrap(), "a&lt;");
    }

    #[test]
    fn the_environment_must_have_credentials() {
        let set = |name: &str| name.starts_with("AWS_ACC").then(|| "x".to_owned());
        let error = Service::of_environment(&set).err().unwrap().to_string();
        assert!(error.contains("AWS_SECRET_ACCESS_KEY"), "{error}");
    }
}
