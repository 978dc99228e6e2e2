//! A native listener.

use crate::session::Session;
use crate::settings::{Client, ListenerSettings, ListenerState};
use porpoise_rows::Db;
use std::sync::Arc;

/// A native listener.
pub struct Native {
    state: Arc<ListenerState>,
}

impl Native {
    /// A listener over the rows of `db`.
    pub fn new(db: Arc<Db>, settings: ListenerSettings) -> Native {
        Native {
            state: Arc::new(ListenerState { db, settings }),
        }
    }

    /// Opens a connection of a client that has sent its preamble and, if it uses TLS, completed the
    /// handshake.
    pub fn connect(&self, client: Client) -> Session {
        Session::new(self.state.clone(), client)
    }
}
