//! ALTER TABLE ... MEMCACHED: maps a key prefix to a table's rows.

use super::Ident;

/// `MEMCACHED PREFIX 'u:' ...`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyPrefix<'a> {
    /// The prefix.
    pub prefix: &'a [u8],
    /// ROLE; `default_role` if not given.
    pub role: Option<&'a [u8]>,
    /// KEY; the primary key if empty.
    pub key: &'a [Ident<'a>],
    /// VALUE; all other columns if empty.
    pub value: &'a [Ident<'a>],
    /// FLAGS: the column that stores the client's flags.
    pub flags: Option<Ident<'a>>,
    /// CAS: the column that receives the row version.
    pub cas: Option<Ident<'a>>,
    /// EXPIRES: the column that stores the expiry time.
    pub expires: Option<Ident<'a>>,
    /// POLICY; `ndb-only` if not given.
    pub policy: Option<&'a [u8]>,
    /// SEPARATOR: separates the values of several columns.
    pub separator: Option<&'a [u8]>,
    /// ESCAPE: a single byte.
    pub escape: Option<&'a [u8]>,
    /// NULL AS: the text that represents NULL.
    pub null_token: Option<&'a [u8]>,
    /// AS JSON
    pub json: bool,
}
