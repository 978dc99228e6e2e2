//! Sessions of other protocols in the process list: SHOW PROCESSLIST shows them, KILL ends them.

use crate::client::ClientInfo;
use crate::processes::Process;
use crate::server::SqlServer;
use porpoise_base::cancel::Cancel;
use porpoise_rows::metadata_lock::MetadataLockSession;
use std::sync::Arc;

/// The process-list entry of a session of another protocol. Dropping this removes the entry.
pub struct RegisteredProcess {
    server: Arc<SqlServer>,
    process: Arc<Process>,
    /// Handle to the metadata locks, which gives the entry its identity in the list of locks.
    _locks: MetadataLockSession,
}

impl RegisteredProcess {
    /// Records the start of a request.
    pub fn begin(&self, command: &'static str, text: Option<&[u8]>) {
        let now = self.server.db().clock().now();
        self.process.begin(command, text, now);
    }

    /// Records the end of a request.
    pub fn end(&self) {
        self.process.end(self.server.db().clock().now());
    }
}

impl Drop for RegisteredProcess {
    fn drop(&mut self) {
        self.server.processes.remove(&self.process);
    }
}

impl SqlServer {
    /// Adds a session of another protocol to the process list, where KILL finds it.
    pub fn register_process(
        self: &Arc<Self>,
        client: &ClientInfo,
        named_at: u64,
        cancel: Cancel,
    ) -> RegisteredProcess {
        let now = self.db().clock().now();
        let locks = self.db().metadata_locks().session();
        let process = Arc::new(Process::new(client, named_at, now, cancel, &locks));
        self.processes.add(process.clone());
        RegisteredProcess {
            server: self.clone(),
            process,
            _locks: locks,
        }
    }
}
