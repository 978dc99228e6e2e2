//! A connection sees its own writes, also those that are not durable yet.

use crate::in_process::InProcess;
use std::fmt::Write;

#[test]
fn pipelined_gets_see_the_sets_before_them() {
    let server = InProcess::open();
    let (mut request, mut expected) = (String::new(), String::new());
    for n in 0..300 {
        let _ = write!(request, "set a 0 0 3\r\n{n:03}\r\nget a\r\n");
        let _ = write!(expected, "STORED\r\nVALUE a 0 3\r\n{n:03}\r\nEND\r\n");
        if n % 10 == 0 {
            let _ = write!(request, "set b 0 0 3 noreply\r\n{n:03}\r\nget a b\r\n");
            let _ = write!(
                expected,
                "VALUE a 0 3\r\n{n:03}\r\nVALUE b 0 3\r\n{n:03}\r\nEND\r\n"
            );
        }
    }
    assert_eq!(server.ask(&request), expected);
}
