//! A native listener.

use crate::local::LocalSession;
use crate::session::Session;
use crate::settings::{Client, ListenerSettings, ListenerState, SessionInfo};
use porpoise_base::memory::ConnectionMemory;
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
            state: Arc::new(ListenerState {
                db,
                settings,
                subscriptions: Arc::default(),
            }),
        }
    }

    /// Opens a connection of a client that has sent its preamble and, if it uses TLS, completed the
    /// handshake.
    pub fn connect(&self, client: Client) -> Session {
        Session::new(self.state.clone(), client)
    }

    /// Opens a session for a client that another listener of this process has authenticated.
    pub fn open_local(
        &self,
        info: &SessionInfo<'_>,
        memory: &Arc<ConnectionMemory>,
    ) -> LocalSession {
        LocalSession::new(self.state.clone(), info, memory)
    }
}
