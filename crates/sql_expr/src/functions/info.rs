//! Information functions (manual, "Information Functions").

use super::{Call, Function, Nullable, bigint, text_of, unsigned};
use crate::error::Result;
use crate::expr::Expr;
use porpoise_types::{Collation, ColumnType, Kind, ValueRef};

/// The version that clients see. It starts with MySQL's version, which drivers parse.
pub const VERSION: &str = concat!("8.4.0-porpoise-", env!("CARGO_PKG_VERSION"));

/// The version of the ICU library in MySQL 8.4.0.
const ICU_VERSION: &str = "73.1";

fn name_type(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::varchar(288, Collation::UTF8MB4_GENERAL_CI)
}

const fn entry(
    name: &'static str,
    nullable: Nullable,
    ty: super::TypeOf,
    run: for<'c, 'a> fn(&Call<'c, 'a>) -> Result<ValueRef<'a>>,
    doc: &'static str,
) -> Function {
    Function {
        name,
        args: (0, 0),
        constant: true,
        nullable,
        ty,
        run,
        doc,
        example: ("", ""),
    }
}

fn database<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let name = c.cx.env.database.as_deref();
    Ok(name.map_or(ValueRef::Null, |n| ValueRef::Bytes(n.as_bytes())))
}

fn user<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(ValueRef::Bytes(c.cx.env.user.as_bytes()))
}

fn account<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(ValueRef::Bytes(c.cx.env.account.as_bytes()))
}

fn roles_type(_: &[Expr], _: Collation) -> ColumnType {
    ColumnType::text(Kind::LongText, Collation::UTF8MB4_GENERAL_CI)
}

fn roles<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(ValueRef::Bytes(match c.cx.env.roles.as_bytes() {
        b"" => b"NONE",
        roles => roles,
    }))
}

fn last_insert_id<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    if c.is_empty() {
        return Ok(ValueRef::UInt(c.cx.env.last_insert_id.get()));
    }
    let Some(id) = c.int(0)? else {
        c.cx.env.last_insert_id.set(0);
        return Ok(ValueRef::Null);
    };
    let id = id as u64;
    c.cx.env.last_insert_id.set(id);
    Ok(ValueRef::UInt(id))
}

fn charset_of<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let name = c.collation(0).charset().name();
    Ok(ValueRef::Bytes(name.as_bytes()))
}

fn collation_of<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(ValueRef::Bytes(c.collation(0).name().as_bytes()))
}

fn coercibility<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let level = c.args.first().map_or(6, |e| e.coercibility as i64);
    Ok(ValueRef::Int(level))
}

/// MYSQL_QUERY_ATTRIBUTE_STRING(): the first attribute of the name, ignoring case as MySQL does.
fn query_attribute<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let Some(name) = c.text(0)? else {
        return Ok(ValueRef::Null);
    };
    let same = |sent: &[u8]| Collation::UTF8MB4_0900_AI_CI.equal(sent, name);
    let mut attributes = c.cx.env.query_attributes.iter();
    let found = attributes.find(|attribute| same(&attribute.name));
    let value = found.and_then(|attribute| attribute.value.as_deref());
    Ok(value.map_or(ValueRef::Null, ValueRef::Bytes))
}

/// SLEEP(): waits inside `blocking`; KILL ends it.
fn sleep<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let seconds = c.double(0)?.filter(|s| *s >= 0.0);
    let Some(seconds) = seconds else {
        return Err(crate::error::SqlError::wrong_arguments("sleep"));
    };
    let time = std::time::Duration::from_secs_f64(seconds.min(31_536_000.0));
    let interrupted = c.cx.env.sleep(time);
    Ok(ValueRef::Int(i64::from(interrupted)))
}

/// The SQL value of a stored one: of a TIMESTAMP in the session's time zone, of ENUM and SET as text.
fn default_of<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(match (c.arg(0), c.args.first().map(|e| e.ty.kind)) {
        ((ValueRef::Null, _), _) => ValueRef::Null,
        ((ValueRef::DateTime(utc), _), Some(Kind::Timestamp)) => {
            ValueRef::DateTime(c.cx.env.time_zone.utc_to_local(utc))
        }
        ((value, Some(ty)), Some(Kind::Enum | Kind::Set)) => {
            let mut text = Vec::new();
            porpoise_types::write_text(value, ty, &mut text);
            c.keep(&text)
        }
        ((value, _), _) => value,
    })
}

/// PS_THREAD_ID() and PS_CURRENT_THREAD_ID(): an error, because there is no Performance Schema.
fn no_performance_schema<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    let name = c.name.to_ascii_lowercase();
    let text = format!("'{name}': The Performance Schema is not enabled.");
    Err(crate::error::SqlError::new(1683, "HY000", text))
}

/// VALIDATE_PASSWORD_STRENGTH() without the component that rates passwords, as MySQL answers.
fn password_strength<'a>(c: &Call<'_, 'a>) -> Result<ValueRef<'a>> {
    Ok(c.text(0)?.map_or(ValueRef::Null, |_| ValueRef::Int(0)))
}

fn type_of_last(args: &[Expr], _: Collation) -> ColumnType {
    args.last().map_or_else(ColumnType::null, |e| e.ty.clone())
}

/// The registry entries.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "DEFAULT OF",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: type_of_last,
        run: default_of,
        doc: "DEFAULT(col): the default of a column.",
        example: ("", ""),
    },
    Function {
        name: "NAME_CONST",
        args: (2, 2),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: type_of_last,
        run: |c| Ok(c.arg(1).0),
        doc: "The second argument, a constant; the first names the column of the result.",
        example: ("NAME_CONST('x', 14)", "14"),
    },
    Function {
        name: "ANY_VALUE",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: |args, _| args.first().map_or_else(ColumnType::null, |e| e.ty.clone()),
        run: |c| Ok(c.values.first().copied().unwrap_or(ValueRef::Null)),
        doc: "Its argument, exempt from the check of ONLY_FULL_GROUP_BY.",
        example: ("ANY_VALUE(5)", "5"),
    },
    entry(
        "VERSION",
        Nullable::Never,
        |_, _| text_of(60, Collation::UTF8MB4_GENERAL_CI),
        |_| Ok(ValueRef::Bytes(VERSION.as_bytes())),
        "The server's version.",
    ),
    entry(
        "DATABASE",
        Nullable::Always,
        name_type,
        database,
        "The default database.",
    ),
    entry(
        "SCHEMA",
        Nullable::Always,
        name_type,
        database,
        "The default database.",
    ),
    entry(
        "USER",
        Nullable::Never,
        name_type,
        user,
        "The user name the client gave, and its host.",
    ),
    entry(
        "SESSION_USER",
        Nullable::Never,
        name_type,
        user,
        "As USER().",
    ),
    entry(
        "SYSTEM_USER",
        Nullable::Never,
        name_type,
        user,
        "As USER().",
    ),
    entry(
        "CURRENT_USER",
        Nullable::Never,
        name_type,
        account,
        "The account that the client was authenticated as.",
    ),
    Function {
        name: "CURRENT_ROLE",
        args: (0, 0),
        constant: false,
        nullable: Nullable::Never,
        ty: roles_type,
        run: roles,
        doc: "The active roles of the session.",
        example: ("", ""),
    },
    entry(
        "CONNECTION_ID",
        Nullable::Never,
        unsigned,
        |c| Ok(ValueRef::UInt(c.cx.env.connection_id)),
        "The number of the connection.",
    ),
    entry(
        "ROW_COUNT",
        Nullable::Never,
        bigint,
        |c| Ok(ValueRef::Int(c.cx.env.row_count)),
        "Rows changed by the previous statement.",
    ),
    entry(
        "FOUND_ROWS",
        Nullable::Never,
        bigint,
        |c| Ok(ValueRef::UInt(c.cx.env.found_rows)),
        "Rows that the previous SELECT would have returned without LIMIT.",
    ),
    Function {
        name: "LAST_INSERT_ID",
        args: (0, 1),
        constant: false,
        nullable: Nullable::IfArgument,
        ty: unsigned,
        run: last_insert_id,
        doc: "The first id generated by the last INSERT; with an argument, sets it.",
        example: ("LAST_INSERT_ID(7)", "7"),
    },
    Function {
        name: "CHARSET",
        args: (1, 1),
        constant: true,
        nullable: Nullable::Never,
        ty: name_type,
        run: charset_of,
        doc: "The character set of the argument.",
        example: ("CHARSET(_latin1'a')", "latin1"),
    },
    Function {
        name: "COLLATION",
        args: (1, 1),
        constant: true,
        nullable: Nullable::Never,
        ty: name_type,
        run: collation_of,
        doc: "The collation of the argument.",
        example: ("COLLATION(_binary'a')", "binary"),
    },
    Function {
        name: "COERCIBILITY",
        args: (1, 1),
        constant: true,
        nullable: Nullable::Never,
        ty: bigint,
        run: coercibility,
        doc: "The coercibility of the argument's collation.",
        example: ("COERCIBILITY('a' COLLATE utf8mb4_bin)", "0"),
    },
    Function {
        name: "MYSQL_QUERY_ATTRIBUTE_STRING",
        args: (1, 1),
        constant: false,
        nullable: Nullable::Always,
        ty: |_, collation| ColumnType::text(Kind::LongText, collation),
        run: query_attribute,
        doc: "The value, as text, of the query attribute of that name; NULL without one.",
        example: ("", ""),
    },
    Function {
        name: "ICU_VERSION",
        args: (0, 0),
        constant: true,
        nullable: Nullable::Never,
        ty: |_, c| text_of(20, c),
        run: |_| Ok(ValueRef::Bytes(ICU_VERSION.as_bytes())),
        doc: "The version of the ICU library whose regular expressions are implemented.",
        example: ("ICU_VERSION()", ICU_VERSION),
    },
    Function {
        name: "ROLES_GRAPHML",
        args: (0, 0),
        constant: false,
        nullable: Nullable::Never,
        ty: roles_type,
        run: |_| Ok(ValueRef::Null),
        doc: "The role graph in GraphML; the session evaluates it.",
        example: ("LEFT(ROLES_GRAPHML(), 5)", "<?xml"),
    },
    Function {
        name: "PS_CURRENT_THREAD_ID",
        args: (0, 0),
        constant: false,
        nullable: Nullable::Always,
        ty: unsigned,
        run: no_performance_schema,
        doc: "Error 1683: there is no Performance Schema.",
        example: ("", ""),
    },
    Function {
        name: "PS_THREAD_ID",
        args: (1, 1),
        constant: false,
        nullable: Nullable::Always,
        ty: unsigned,
        run: no_performance_schema,
        doc: "Error 1683: there is no Performance Schema.",
        example: ("", ""),
    },
    Function {
        name: "VALIDATE_PASSWORD_STRENGTH",
        args: (1, 1),
        constant: true,
        nullable: Nullable::IfArgument,
        ty: bigint,
        run: password_strength,
        doc: "0: no component rates passwords.",
        example: ("VALIDATE_PASSWORD_STRENGTH('N0Tweak$_@123!')", "0"),
    },
    Function {
        name: "SLEEP",
        args: (1, 1),
        constant: false,
        nullable: Nullable::Never,
        ty: bigint,
        run: sleep,
        doc: "Waits for a number of seconds; 1 if it was interrupted.",
        example: ("SLEEP(0)", "0"),
    },
];
