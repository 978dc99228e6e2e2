//! Clients of the native protocol and of REST on a table with the columns `id` and `v`.

use porpoise_native_client::{
    Address, Batch, Connection, Error, Operation, Outcome, Result, Target, Value, ValueRef,
};
use porpoise_testkit::{HttpReply, Porpoise, http_request};
use serde_json::{Value as Json, json};
use std::net::SocketAddr;

/// A row: the version, and the value of `v`.
pub type Versioned<T> = (u64, T);

fn address(server: &Porpoise, listener: &str) -> SocketAddr {
    let place = server.socket(listener).expect(listener);
    place.to_str().unwrap().parse().unwrap()
}

/// A native client.
pub struct Native {
    pub connection: Connection,
    read: Operation,
    lock: Operation,
    update: Operation,
    swap: Operation,
}

/// Outcome of an UPDATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    Yes,
    /// A row of the batch has another version.
    No,
    /// The transaction was rolled back because of a conflict.
    Conflict,
}

fn id(id: u64) -> ValueRef<'static> {
    ValueRef::Int(id.try_into().unwrap())
}

impl Native {
    /// Connects as root.
    pub fn connect(server: &Porpoise, table: &str) -> Native {
        let at = address(server, "native");
        let at = Address::Tcp(at.ip().to_string(), at.port());
        let mut connection = Connection::connect(&Target::new(at, "root", "")).unwrap();
        let table = connection.table("h", table).unwrap();
        let read = table.read().columns(&["v"]).with_version();
        let update = table.update().columns(&["v"]);
        Native {
            connection,
            read: read.build().unwrap(),
            lock: read.for_update().build().unwrap(),
            update: update.build().unwrap(),
            swap: update.if_version().build().unwrap(),
        }
    }

    fn rows(&mut self, operation: &Operation, ids: &[u64]) -> Result<Vec<Versioned<Value>>> {
        let mut batch = Batch::new();
        for row in ids {
            batch.push(operation, &[id(*row)]).unwrap();
        }
        let reply = self.connection.run(&batch)?;
        let rows = reply.results().map(|outcome| match outcome? {
            Outcome::Row { version, values } => Ok((version, values.first().unwrap().to_owned())),
            Outcome::Failed(error) => Err(Error::Server(error)),
            other => panic!("{other:?}"),
        });
        rows.collect()
    }

    /// Reads rows at one snapshot.
    pub fn read(&mut self, ids: &[u64]) -> Result<Vec<Versioned<Value>>> {
        self.rows(&self.read.clone(), ids)
    }

    /// Reads the newest state of a row, and locks it.
    pub fn lock(&mut self, id: u64) -> Result<Versioned<Value>> {
        Ok(self.rows(&self.lock.clone(), &[id])?.remove(0))
    }

    /// Changes a row.
    pub fn update(&mut self, row: u64, value: ValueRef<'_>) -> Updated {
        let mut batch = Batch::new();
        batch.push(&self.update, &[id(row), value]).unwrap();
        self.run(&batch)
    }

    /// Changes rows if all have these versions.
    pub fn swap(&mut self, changes: &[(u64, u64, ValueRef<'_>)]) -> Updated {
        let mut batch = Batch::atomic();
        for (row, version, value) in changes {
            let values = [id(*row), ValueRef::UInt(*version), *value];
            batch.push(&self.swap, &values).unwrap();
        }
        self.run(&batch)
    }

    fn run(&mut self, batch: &Batch) -> Updated {
        let reply = match self.connection.run(batch) {
            Err(error) if error.is_conflict() => return Updated::Conflict,
            other => other.unwrap(),
        };
        let mut updated = Updated::Yes;
        for outcome in reply.results() {
            match outcome.unwrap() {
                Outcome::Written { .. } => {}
                Outcome::ConditionFailed | Outcome::Aborted => updated = Updated::No,
                other => panic!("{other:?}"),
            }
        }
        updated
    }
}

/// A REST client, whose values are texts.
pub struct Rest {
    address: SocketAddr,
    table: String,
}

impl Rest {
    pub fn new(server: &Porpoise, table: &str) -> Rest {
        Rest {
            address: address(server, "rest"),
            table: table.to_owned(),
        }
    }

    fn send(&self, method: &str, path: &str, header: &str, body: &str) -> HttpReply {
        let headers = [
            "Authorization: Basic cm9vdDo=",
            "Content-Type: application/json",
            header,
        ];
        http_request(self.address, method, path, &headers, body)
    }

    fn path(&self, row: u64) -> String {
        format!("/v1/tables/h/{}/rows/{row}", self.table)
    }

    /// Reads a row.
    pub fn read(&self, row: u64) -> Versioned<String> {
        let reply = self.send("GET", &self.path(row), "A: b", "");
        assert_eq!(reply.status, 200, "{reply:?}");
        let body: Json = serde_json::from_str(&reply.body).unwrap();
        let version = reply.header("etag").unwrap().trim_matches('"');
        (
            version.parse().unwrap(),
            body["v"].as_str().unwrap().to_owned(),
        )
    }

    /// Changes a row; with a version only if the row has it.
    pub fn patch(&self, row: u64, version: Option<u64>, value: &str) -> Updated {
        let header = version.map_or("A: b".to_owned(), |v| format!("If-Match: \"{v}\""));
        let body = json!({"v": value}).to_string();
        let reply = self.send("PATCH", &self.path(row), &header, &body);
        match reply.status {
            200 => Updated::Yes,
            412 => Updated::No,
            409 => Updated::Conflict,
            _ => panic!("{reply:?}"),
        }
    }

    fn batch(&self, operations: &[Json]) -> Option<Vec<Json>> {
        let body = json!({"atomic": true, "operations": operations}).to_string();
        let reply = self.send("POST", "/v1/batch", "A: b", &body);
        if reply.status == 409 {
            return None;
        }
        assert_eq!(reply.status, 200, "{reply:?}");
        let body: Json = serde_json::from_str(&reply.body).unwrap();
        Some(body["results"].as_array().unwrap().clone())
    }

    /// Reads rows by one batch.
    pub fn read_all(&self, rows: &[u64]) -> Vec<Versioned<String>> {
        let read = |row| json!({"op": "read", "database": "h", "table": self.table, "key": [row]});
        let operations: Vec<Json> = rows.iter().map(read).collect();
        let results = self.batch(&operations).unwrap();
        let row = |result: &Json| {
            let version = result["version"].as_str().unwrap().parse().unwrap();
            (version, result["row"]["v"].as_str().unwrap().to_owned())
        };
        results.iter().map(row).collect()
    }

    /// Changes rows by one batch, if all have these versions.
    pub fn swap(&self, changes: &[(u64, u64, String)]) -> Updated {
        let change = |(row, version, value): &(u64, u64, String)| {
            json!({"op": "update", "database": "h", "table": self.table, "key": [row],
                "values": {"v": value}, "if_version": version.to_string()})
        };
        let operations: Vec<Json> = changes.iter().map(change).collect();
        match self.batch(&operations) {
            None => Updated::Conflict,
            Some(results) if results.iter().all(|r| r["status"] == "ok") => Updated::Yes,
            Some(_) => Updated::No,
        }
    }

    /// Executes a statement with a string as its parameter. Returns false after a conflict.
    pub fn statement(&self, statement: &str, parameter: &str) -> bool {
        let body = json!({"statement": statement, "parameters": [parameter]}).to_string();
        let reply = self.send("POST", "/v1/sql", "A: b", &body);
        assert!(matches!(reply.status, 200 | 409), "{reply:?}");
        reply.status == 200
    }
}
