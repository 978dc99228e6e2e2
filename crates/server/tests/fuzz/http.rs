//! Random bytes at the HTTP listener.

use crate::talk::exchange;
use crate::watch::Watched;
use crate::{LONG, SHORT};
use porpoise_testkit::{Porpoise, Random};

const REQUESTS: &[&[u8]] = &[
    b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"GET /metrics HTTP/1.0\r\n\r\n",
    b"POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\nx",
    b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nCookie: porpoise_console_1=00; a=b\r\n\r\n",
    b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 31\r\n\r\n{\"user\":\"root\",\"password\":\"x\"}\n",
    b"POST /api/v1/kill HTTP/1.1\r\nHost: [::1]:80\r\nOrigin: null\r\nX-CSRF-Token: 0\r\nContent-Length: 2\r\n\r\n{}",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
];

fn case(random: &mut Random, server: &Porpoise) {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(4) {
        let request = *random.pick(REQUESTS);
        match random.below(4) {
            0 => bytes.extend(request),
            1 => {
                let size = random.below(2000);
                bytes.extend(random.bytes(size));
            }
            _ => bytes.extend(random.mutate(request)),
        }
    }
    exchange(server.http_addr, random, &bytes);
    if random.once_in(16) {
        assert_eq!(server.http("/health"), (200, "ok\n".to_owned()));
    }
}

#[test]
fn any_http_requests() {
    Watched::start().run(SHORT, 300, case);
}

#[test]
#[ignore = "long: minutes of random requests"]
fn any_http_requests_for_long() {
    Watched::start().run(LONG / 4, u64::MAX, case);
}
