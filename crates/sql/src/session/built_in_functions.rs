//! Built-in functions that need the session ([`BuiltIn`]): LOAD_FILE() and ROLES_GRAPHML().

use super::SqlSession;
use super::load::file_directory;
use crate::context::StatementContext;
use porpoise_access::{AccessData, Account, AuthId, Privileges};
use porpoise_base::blocking::blocking;
use porpoise_base::statement_file::open_within;
use porpoise_sql_expr::expr::stored::BuiltIn;
use porpoise_types::{ColumnType, Level, Value, Warning};
use std::ffi::OsStr;
use std::fmt::Write;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl SqlSession {
    /// Evaluates a built-in function.
    pub(super) fn run_built_in(&self, function: BuiltIn, args: Vec<(Value, ColumnType)>) -> Value {
        match (function, args.into_iter().next()) {
            (BuiltIn::LoadFile, Some((Value::Bytes(name), _))) => load_file(&self.cx, &name),
            (BuiltIn::LoadFile, _) => Value::Null,
            (BuiltIn::RolesGraphml, _) => Value::Bytes(roles_graphml(&self.cx).into_bytes()),
        }
    }
}

/// The content of a file in `secure_file_priv`; NULL if it cannot be read, if it is longer than
/// `max_allowed_packet`, or without the privilege FILE.
fn load_file(cx: &StatementContext, name: &[u8]) -> Value {
    let limit = cx.settings.max_allowed_packet;
    let directory = file_directory(cx).ok();
    let directory = directory.filter(|_| cx.rights().global().has(Privileges::FILE));
    let Some(directory) = directory else {
        return Value::Null;
    };
    let read = || -> std::io::Result<Option<Vec<u8>>> {
        let path = Path::new(OsStr::from_bytes(name));
        let Some(file) = open_within(Path::new(&directory), path)? else {
            return Ok(None);
        };
        let mut content = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut content)?;
        Ok(Some(content))
    };
    match blocking(read) {
        Ok(Some(content)) if content.len() as u64 > limit => {
            cx.env.warn(Warning {
                level: Level::Warning,
                code: 1301,
                message: format!(
                    "Result of load_file() was larger than max_allowed_packet ({limit}) - truncated"
                ),
            });
            Value::Null
        }
        Ok(Some(content)) => Value::Bytes(content),
        Ok(None) | Err(_) => Value::Null,
    }
}

/// The role graph as a GraphML document; an empty one without ROLE_ADMIN.
fn roles_graphml(cx: &StatementContext) -> String {
    const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    if !cx.rights().global().has(Privileges::ROLE_ADMIN) {
        return format!("{HEAD}<graphml />\n");
    }
    format!("{HEAD}{}", graph(&cx.server.access.data()))
}

/// A node for each account and role, and an edge from each role to whom it is granted; its color is
/// 1 for a grant WITH ADMIN OPTION.
fn graph(data: &AccessData) -> String {
    let mut nodes: Vec<AuthId> = data.accounts.iter().map(Account::id).collect();
    for edge in &data.edges {
        for id in [&edge.role, &edge.grantee] {
            if !nodes.contains(id) {
                nodes.push(id.clone());
            }
        }
    }
    let number = |id: &AuthId| nodes.iter().position(|node| node == id).unwrap_or(0);
    let mut text = String::from(
        "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xsi:schemaLocation=\"http://graphml.graphdrawing.org/xmlns \
         http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd\">\n\
         \u{20} <key id=\"key0\" for=\"edge\" attr.name=\"color\" attr.type=\"string\" />\n\
         \u{20} <key id=\"key1\" for=\"node\" attr.name=\"name\" attr.type=\"string\" />\n\
         \u{20} <graph id=\"G\" edgedefault=\"directed\" parse.nodeids=\"canonical\" \
         parse.edgeids=\"canonical\" parse.order=\"nodesfirst\">\n",
    );
    let mut add = |part: std::fmt::Arguments<'_>| {
        let done = text.write_fmt(part);
        debug_assert!(done.is_ok(), "writing to a string");
    };
    for (n, id) in nodes.iter().enumerate() {
        let name = escaped(&id.to_string());
        add(format_args!(
            "    <node id=\"n{n}\">\n      <data key=\"key1\">{name}</data>\n    </node>\n"
        ));
    }
    for (n, edge) in data.edges.iter().enumerate() {
        let (from, to) = (number(&edge.role), number(&edge.grantee));
        let color = u8::from(edge.admin);
        add(format_args!(
            "    <edge id=\"e{n}\" source=\"n{from}\" target=\"n{to}\">\n      \
             <data key=\"key0\">{color}</data>\n    </edge>\n"
        ));
    }
    add(format_args!("  </graph>\n</graphml>\n"));
    text
}

/// Text between tags of XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
