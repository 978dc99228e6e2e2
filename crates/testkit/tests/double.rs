//! The TiKV double starts, opens its ports, and goes with its handle.

use std::net::TcpStream;

use porpoise_testkit::TikvDouble;

#[test]
fn the_double_opens_its_ports_and_goes_with_its_handle() {
    let double = TikvDouble::start(2);
    let address = double.pd_addr;
    assert!(TcpStream::connect(address).is_ok());
    drop(double);
    assert!(TcpStream::connect(address).is_err());
}
