//! Messages to systemd, for units with `Type=notify` (sd_notify(3)).
//!
//! The protocol is a datagram of lines to the socket that `NOTIFY_SOCKET` names, so that no library is needed.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Environment variable that names the socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Reports that the server accepts connections.
pub fn ready() {
    notify("READY=1\nSTATUS=accepting connections");
}

/// Reports that the server is shutting down.
pub fn stopping() {
    notify("STOPPING=1\nSTATUS=shutting down");
}

/// Sends a message if a service manager has started the process.
fn notify(message: &str) {
    if let Some(socket) = std::env::var(SOCKET).ok().filter(|name| !name.is_empty())
        && let Err(error) = send(&socket, message)
    {
        tracing::warn!("cannot notify the service manager at {socket}: {error}");
    }
}

fn send(socket: &str, message: &str) -> io::Result<()> {
    // "@" stands for the null byte of an abstract name.
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_reach_sockets_of_both_kinds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let abstract_name = format!("porpoise-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (socket, name) in [
            (
                UnixDatagram::bind(&path).unwrap(),
                path.to_str().unwrap().to_owned(),
            ),
            (
                UnixDatagram::bind_addr(&address).unwrap(),
                format!("@{abstract_name}"),
            ),
        ] {
            send(&name, "READY=1").unwrap();
            let mut message = [0; 64];
            let length = socket.recv(&mut message).unwrap();
            assert_eq!(&message[..length], b"READY=1");
        }
        assert!(send("/no/such/socket", "READY=1").is_err());
    }
}
