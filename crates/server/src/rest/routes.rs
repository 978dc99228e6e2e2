//! The operations of the interface: one table for dispatch and for the OpenAPI document.
//!
//! To add an operation, add a line here, a variant of [`Endpoint`] and its arm in
//! [`super::respond`]; the document follows.

use super::problem::Problem;
use axum::http::Method;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// The OpenAPI document.
    OpenApi,
    /// Issues a token.
    IssueToken,
    /// Revokes a token.
    RevokeToken,
    /// Lists tables.
    ListTables,
    /// Describes a table.
    DescribeTable,
    /// Inserts a row.
    InsertRow,
    /// Reads a row.
    ReadRow,
    /// Creates or replaces a row.
    PutRow,
    /// Changes columns of a row.
    PatchRow,
    /// Deletes a row.
    DeleteRow,
    /// Executes operations on rows.
    Batch,
    /// Executes an SQL statement.
    Sql,
    /// Streams changes of rows.
    Changes,
}

/// A parameter in the query or a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `query` or `header`.
    pub(super) place: &'static str,
    /// `string`, `integer` or `boolean`.
    pub(super) kind: &'static str,
    pub(super) text: &'static str,
}

/// An answer that is not a problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: &'static str,
    /// Name of the schema of its body, if it has one.
    pub(super) schema: Option<&'static str>,
    /// Whether it has the row's version in ETag.
    pub(super) has_tag: bool,
}

/// An operation of a method on a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) endpoint: Endpoint,
    pub(super) method: &'static str,
    /// The path; `{name}` is a parameter of one segment.
    pub(super) path: &'static str,
    /// One sentence.
    pub(super) text: &'static str,
    pub(super) parameters: &'static [Parameter],
    /// Name of the schema of the request's body, if it has one.
    pub(super) body: Option<&'static str>,
    pub(super) answers: &'static [Answer],
}

impl Route {
    /// Whether the operation needs no login.
    pub(super) fn is_public(&self) -> bool {
        self.endpoint == Endpoint::OpenApi
    }

    /// Whether the answer may also be lines of JSON or an Arrow stream.
    pub(super) fn streams_rows(&self) -> bool {
        self.endpoint == Endpoint::Sql
    }

    /// Whether the answer is a stream of events.
    pub(super) fn streams_events(&self) -> bool {
        self.endpoint == Endpoint::Changes
    }
}

const KEY: Parameter = Parameter {
    name: "key",
    place: "query",
    kind: "string",
    text: "Name of the unique key by which the row is found; default: the primary key.",
};

const COLUMNS: Parameter = Parameter {
    name: "columns",
    place: "query",
    kind: "string",
    text: "Names of the columns to read, between commas; default: all.",
};

const TIME_LIMIT: Parameter = Parameter {
    name: "time_limit_ms",
    place: "query",
    kind: "integer",
    text: "Time limit in milliseconds; default: 30000.",
};

const IF_MATCH: Parameter = Parameter {
    name: "If-Match",
    place: "header",
    kind: "string",
    text: "Version that the row must have, as ETag has it, or * for any.",
};

const IF_NONE_MATCH: Parameter = Parameter {
    name: "If-None-Match",
    place: "header",
    kind: "string",
    text: "GET: versions that are answered 304. PUT: * requires that no row has the key.",
};

/// Parameters of the change stream.
const CHANGES: &[Parameter] = &[
    Parameter {
        name: "database",
        place: "query",
        kind: "string",
        text: "Database whose changes are sent; default: all. Needs SELECT on it, or on the tables.",
    },
    Parameter {
        name: "table",
        place: "query",
        kind: "string",
        text: "Names of tables of the database, separated by commas; default: all.",
    },
    Parameter {
        name: "key_prefix",
        place: "query",
        kind: "string",
        text: "Prefix of the primary key, whose values are joined by commas.",
    },
    Parameter {
        name: "from",
        place: "query",
        kind: "string",
        text: "Position: now (default), first, a set of GTIDs, or FILE:POSITION.",
    },
    Parameter {
        name: "Last-Event-ID",
        place: "header",
        kind: "string",
        text: "Position of a client that reconnects: the last id that it has received. Takes precedence over from.",
    },
    Parameter {
        name: "heartbeat_ms",
        place: "query",
        kind: "integer",
        text: "Milliseconds without an event after which a heartbeat is sent; default: 15000.",
    },
    Parameter {
        name: "follow",
        place: "query",
        kind: "boolean",
        text: "false ends the stream at the end of the log.",
    },
];

const fn json(status: u16, schema: &'static str, text: &'static str) -> Answer {
    Answer {
        status,
        text,
        schema: Some(schema),
        has_tag: false,
    }
}

const fn row(status: u16, schema: &'static str, text: &'static str) -> Answer {
    Answer {
        has_tag: true,
        ..json(status, schema, text)
    }
}

const fn empty(status: u16, text: &'static str) -> Answer {
    Answer {
        status,
        text,
        schema: None,
        has_tag: false,
    }
}

const ROW_PATH: &str = "/v1/tables/{database}/{table}/rows/{key}";

/// All operations.
pub(super) const ROUTES: &[Route] = &[
    Route {
        endpoint: Endpoint::OpenApi,
        method: "GET",
        path: "/v1/openapi.json",
        text: "Returns this document. Needs no login.",
        parameters: &[],
        body: None,
        answers: &[json(200, "Document", "The document.")],
    },
    Route {
        endpoint: Endpoint::IssueToken,
        method: "POST",
        path: "/v1/token",
        text: "Issues a bearer token for the account of the Basic credentials.",
        parameters: &[],
        body: None,
        answers: &[json(201, "Token", "The token.")],
    },
    Route {
        endpoint: Endpoint::RevokeToken,
        method: "DELETE",
        path: "/v1/token",
        text: "Revokes the bearer token of this request.",
        parameters: &[],
        body: None,
        answers: &[empty(204, "The token is revoked.")],
    },
    Route {
        endpoint: Endpoint::ListTables,
        method: "GET",
        path: "/v1/tables",
        text: "Lists the tables on which the account has a privilege.",
        parameters: &[],
        body: None,
        answers: &[json(200, "Tables", "The tables.")],
    },
    Route {
        endpoint: Endpoint::DescribeTable,
        method: "GET",
        path: "/v1/tables/{database}/{table}",
        text: "Describes a table: its columns and keys.",
        parameters: &[],
        body: None,
        answers: &[json(200, "Table", "The table.")],
    },
    Route {
        endpoint: Endpoint::InsertRow,
        method: "POST",
        path: "/v1/tables/{database}/{table}/rows",
        text: "Inserts a row.",
        parameters: &[TIME_LIMIT],
        body: Some("Row"),
        answers: &[row(201, "Written", "The row was inserted.")],
    },
    Route {
        endpoint: Endpoint::ReadRow,
        method: "GET",
        path: ROW_PATH,
        text: "Reads a row.",
        parameters: &[KEY, COLUMNS, TIME_LIMIT, IF_NONE_MATCH],
        body: None,
        answers: &[
            row(200, "Row", "The row."),
            empty(304, "The row has one of the versions of If-None-Match."),
        ],
    },
    Route {
        endpoint: Endpoint::PutRow,
        method: "PUT",
        path: ROW_PATH,
        text: "Creates or replaces a row. Columns that the body leaves out get their defaults.",
        parameters: &[KEY, TIME_LIMIT, IF_MATCH, IF_NONE_MATCH],
        body: Some("Row"),
        answers: &[
            row(200, "Written", "The row was replaced."),
            row(201, "Written", "The row was created."),
        ],
    },
    Route {
        endpoint: Endpoint::PatchRow,
        method: "PATCH",
        path: ROW_PATH,
        text: "Changes columns of a row.",
        parameters: &[KEY, TIME_LIMIT, IF_MATCH],
        body: Some("Row"),
        answers: &[row(200, "Written", "The row has these values.")],
    },
    Route {
        endpoint: Endpoint::DeleteRow,
        method: "DELETE",
        path: ROW_PATH,
        text: "Deletes a row.",
        parameters: &[KEY, TIME_LIMIT, IF_MATCH],
        body: None,
        answers: &[empty(204, "The row was deleted.")],
    },
    Route {
        endpoint: Endpoint::Batch,
        method: "POST",
        path: "/v1/batch",
        text: "Executes operations on rows of any tables, in their order and in one transaction.",
        parameters: &[],
        body: Some("Batch"),
        answers: &[json(
            200,
            "BatchResults",
            "The results, in the order of the operations.",
        )],
    },
    Route {
        endpoint: Endpoint::Sql,
        method: "POST",
        path: "/v1/sql",
        text: "Executes an SQL statement in a session of its own. With Accept: application/x-ndjson each row is a line, with Accept: application/vnd.apache.arrow.stream the rows are an Arrow stream.",
        parameters: &[],
        body: Some("Statement"),
        answers: &[json(
            200,
            "StatementResult",
            "The result; it may end with an error.",
        )],
    },
    Route {
        endpoint: Endpoint::Changes,
        method: "GET",
        path: "/v1/changes",
        text: "Streams changes of rows as server-sent events, from a position of the binary log.",
        parameters: CHANGES,
        body: None,
        answers: &[json(
            200,
            "ChangeEvents",
            "The events; the last one may be an error.",
        )],
    },
];

/// A request's operation and the segments of its path, decoded except for `key`.
#[derive(Debug)]
pub(super) struct Matched<'p> {
    pub(super) route: &'static Route,
    segments: Vec<&'p str>,
}

impl Matched<'_> {
    /// The parameter of the path, percent-encoded; empty if the path has none of this name.
    pub(super) fn raw(&self, name: &str) -> &str {
        let mut names = self.route.path.split('/').skip(1).zip(&self.segments);
        let found = names.find(|(segment, _)| parameter_of(segment) == Some(name));
        found.map_or("", |(_, segment)| segment)
    }

    /// The parameter of the path.
    ///
    /// # Errors
    /// It is not percent-encoded UTF-8.
    pub(super) fn parameter(&self, name: &str) -> Result<String, Problem> {
        decode(self.raw(name))
    }
}

/// The name of the parameter that a segment of a route's path is.
pub(super) fn parameter_of(segment: &'static str) -> Option<&'static str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// Result of the search for a request's operation.
#[derive(Debug)]
pub(super) enum Found<'p> {
    Route(Matched<'p>),
    /// The path has other methods, which are named.
    OtherMethods(String),
    NoPath,
}

/// Finds the operation of a request.
pub(super) fn find<'p>(method: &Method, path: &'p str) -> Found<'p> {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let matching: Vec<&'static Route> = ROUTES
        .iter()
        .filter(|route| is_match(route.path, &segments))
        .collect();
    if matching.is_empty() {
        return Found::NoPath;
    }
    // HEAD is answered as GET, but its body is not sent.
    let wanted = match method.as_str() {
        "HEAD" => "GET",
        other => other,
    };
    match matching.iter().find(|route| route.method == wanted) {
        Some(route) => Found::Route(Matched { route, segments }),
        None => {
            let methods = matching.iter().flat_map(|route| match route.method {
                "GET" => &["GET", "HEAD"][..],
                _ => std::slice::from_ref(&route.method),
            });
            let methods: Vec<&str> = methods.copied().chain(["OPTIONS"]).collect();
            Found::OtherMethods(methods.join(", "))
        }
    }
}

fn is_match(path: &'static str, segments: &[&str]) -> bool {
    let wanted = path.split('/').skip(1);
    wanted.clone().count() == segments.len()
        && wanted.zip(segments).all(|(wanted, segment)| {
            if parameter_of(wanted).is_some() {
                !segment.is_empty()
            } else {
                wanted == *segment
            }
        })
}

/// Decodes percent-encoded UTF-8.
///
/// # Errors
/// The text is not percent-encoded UTF-8.
pub(super) fn decode(text: &str) -> Result<String, Problem> {
    let malformed = || Problem::malformed("The URL is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(malformed)?);
        rest = rest.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

/// The parameters of a query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the query of a request for this operation.
    ///
    /// # Errors
    /// A parameter is unknown, repeated, or not percent-encoded UTF-8.
    pub(super) fn parse(query: &str, route: &Route) -> Result<Query, Problem> {
        let mut found: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(&value.replace('+', " "))?);
            let mut known = route.parameters.iter();
            if !known.any(|p| p.place == "query" && p.name == name) {
                let text = format!("This operation has no query parameter '{name}'");
                return Err(Problem::malformed(text));
            }
            if found.iter().any(|(before, _)| *before == name) {
                let text = format!("The query parameter '{name}' is repeated");
                return Err(Problem::malformed(text));
            }
            found.push((name, value));
        }
        Ok(Query(found))
    }

    /// A parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The time limit in milliseconds.
    ///
    /// # Errors
    /// It is not a number.
    pub(super) fn time_limit(&self) -> Result<Option<u32>, Problem> {
        let Some(text) = self.get("time_limit_ms") else {
            return Ok(None);
        };
        let parsed = text.parse::<u32>().ok().filter(|limit| *limit > 0);
        let wrong = || Problem::malformed("time_limit_ms must be a number of milliseconds");
        parsed.map(Some).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_its_parameters() {
        let path = "/v1/tables/my%20shop/items/rows/1,a%2Cb";
        let Found::Route(matched) = find(&Method::GET, path) else {
            panic!("{path} is not found");
        };
        assert_eq!(matched.route.endpoint, Endpoint::ReadRow);
        assert_eq!(matched.parameter("database").unwrap(), "my shop");
        assert_eq!(matched.raw("key"), "1,a%2Cb");
        assert_eq!(matched.raw("other"), "");
        let Found::OtherMethods(methods) = find(&Method::POST, path) else {
            panic!("POST is not refused");
        };
        assert_eq!(methods, "GET, HEAD, PUT, PATCH, DELETE, OPTIONS");
        assert!(matches!(find(&Method::HEAD, path), Found::Route(_)));
        for path in [
            "/",
            "/v1",
            "/v1/tables//x",
            "/v1/tables/a/b/rows/",
            "/v1/sql/",
        ] {
            assert!(matches!(find(&Method::GET, path), Found::NoPath), "{path}");
        }
    }

    #[test]
    fn percent_encoding_is_checked() {
        assert_eq!(decode("a%C3%A4%00").unwrap(), "a\u{e4}\0");
        for text in ["%", "%4", "%zz", "%ff", "%+1"] {
            assert!(decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_and_repeated_query_parameters_are_refused() {
        let route = ROUTES.iter().find(|r| r.endpoint == Endpoint::ReadRow);
        let route = route.unwrap();
        let query = Query::parse("key=by%5Fname&columns=a,b", route).unwrap();
        assert_eq!(query.get("key"), Some("by_name"));
        assert_eq!(query.time_limit().unwrap(), None);
        for text in ["other=1", "key=a&key=b", "key=%ff"] {
            assert!(Query::parse(text, route).is_err(), "{text}");
        }
        for text in ["time_limit_ms=x", "time_limit_ms=0", "time_limit_ms=-1"] {
            assert!(Query::parse(text, route).unwrap().time_limit().is_err());
        }
    }
}
