//! Writes 1,000 rows in one batch, and reads them in another: `thousand_rows HOST PORT USER PASSWORD DATABASE`.
//!
//! The table is made by SQL before: `create table thousand (id bigint primary key, name varchar(40))`.

use porpoise_native_client::{
    Address, Batch, Connection, Error, FromValue, Outcome, Result, Target, ValueRef,
};
use std::io::Write;
use std::time::Instant;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, user, password, database] = arguments.as_slice() else {
        return Err(Error::Usage(
            "thousand_rows HOST PORT USER PASSWORD DATABASE".into(),
        ));
    };
    let port = port
        .parse()
        .map_err(|_| Error::Usage("PORT is not a number".into()))?;
    let target = Target::new(Address::Tcp(host.clone(), port), user, password);
    let mut connection = Connection::connect(&target)?;

    let table = connection.table(database, "thousand")?;
    let upsert = table.upsert().columns(&["id", "name"]).build()?;
    let mut batch = Batch::atomic();
    for id in 0..1000i64 {
        let name = format!("name {id}");
        batch.push(
            &upsert,
            &[ValueRef::Int(id), ValueRef::Bytes(name.as_bytes())],
        )?;
    }
    connection.run(&batch)?.into_success()?;

    let read = table.read().columns(&["name"]).build()?;
    let mut batch = Batch::new();
    for id in 0..1000i64 {
        batch.push(&read, &[ValueRef::Int(id)])?;
    }
    let begin = Instant::now();
    let reply = connection.run(&batch)?;
    let mut found = 0;
    for outcome in reply.results() {
        if let Outcome::Row { values, .. } = outcome?
            && let Some(name) = values.first()
        {
            found += usize::from(String::from_value(name)?.starts_with("name "));
        }
    }
    let time = begin.elapsed().as_micros();
    writeln!(
        std::io::stdout(),
        "read {found} rows in {time} microseconds"
    )
    .map_err(Error::Broken)
}
