//! The keywords of MySQL 8 and their recognition.
//!
//! A word is looked up in an open-addressing hash table that is computed at compile time, keyed by
//! its length and some of its letters. A reserved word cannot be an unquoted identifier; any other
//! keyword can (manual, "Keywords and Reserved Words").
//!
//! Rejected: a match over strings (compiles to thousands of comparisons, and is slower) and a
//! perfect-hash crate (built at run time, or by a build script).

macro_rules! keywords {
    (reserved { $($r:ident)* } open { $($o:ident)* }) => {
        /// A keyword of the language, written as MySQL writes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "keywords are written as MySQL writes them")]
        pub enum Keyword {
            /// No keyword at all.
            NONE,
            $(#[doc = stringify!($r)] $r,)*
            $(#[doc = stringify!($o)] $o,)*
        }

        const ALL: &[Keyword] = &[Keyword::NONE, $(Keyword::$r,)* $(Keyword::$o,)*];
        const NAMES: &[&str] = &["", $(stringify!($r),)* $(stringify!($o),)*];
        const RESERVED: usize = [$(stringify!($r),)*].len();
    };
}

keywords! {
    reserved {
        ACCESSIBLE ADD ALL ALTER ANALYZE AND AS ASC ASENSITIVE BEFORE BETWEEN BIGINT BINARY BLOB
        BOTH BY CALL CASCADE CASE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN CONDITION CONSTRAINT
        CONTINUE CONVERT CREATE CROSS CUBE CUME_DIST CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP
        CURRENT_USER CURSOR DATABASE DATABASES DAY_HOUR DAY_MICROSECOND DAY_MINUTE DAY_SECOND DEC
        DECIMAL DECLARE DEFAULT DELAYED DELETE DENSE_RANK DESC DESCRIBE DETERMINISTIC DISTINCT
        DISTINCTROW DIV DOUBLE DROP DUAL EACH ELSE ELSEIF EMPTY ENCLOSED ESCAPED EXCEPT EXISTS
        EXIT EXPLAIN FALSE FETCH FIRST_VALUE FLOAT FLOAT4 FLOAT8 FOR FORCE FOREIGN FROM FULLTEXT
        FUNCTION GENERATED GET GRANT GROUP GROUPING GROUPS HAVING HIGH_PRIORITY HOUR_MICROSECOND
        HOUR_MINUTE HOUR_SECOND IF IGNORE IN INDEX INFILE INNER INOUT INSENSITIVE INSERT INT INT1
        INT2 INT3 INT4 INT8 INTEGER INTERSECT INTERVAL INTO IO_AFTER_GTIDS IO_BEFORE_GTIDS IS
        ITERATE JOIN JSON_TABLE KEY KEYS KILL LAG LAST_VALUE LATERAL LEAD LEADING LEAVE LEFT LIKE
        LIMIT LINEAR LINES LOAD LOCALTIME LOCALTIMESTAMP LOCK LONG LONGBLOB LONGTEXT LOOP
        LOW_PRIORITY MASTER_BIND MASTER_SSL_VERIFY_SERVER_CERT MATCH MAXVALUE MEDIUMBLOB MEDIUMINT
        MEDIUMTEXT MIDDLEINT MINUTE_MICROSECOND MINUTE_SECOND MOD MODIFIES NATURAL NOT
        NO_WRITE_TO_BINLOG NTH_VALUE NTILE NULL NUMERIC OF ON OPTIMIZE OPTIMIZER_COSTS OPTION
        OPTIONALLY OR ORDER OUT OUTER OUTFILE OVER PARTITION PERCENT_RANK PRECISION PRIMARY
        PROCEDURE PURGE RANGE RANK READ READS READ_WRITE REAL RECURSIVE REFERENCES REGEXP RELEASE
        RENAME REPEAT REPLACE REQUIRE RESIGNAL RESTRICT RETURN REVOKE RIGHT RLIKE ROW ROWS
        ROW_NUMBER SCHEMA SCHEMAS SECOND_MICROSECOND SELECT SENSITIVE SEPARATOR SET SHOW SIGNAL
        SMALLINT SPATIAL SPECIFIC SQL SQLEXCEPTION SQLSTATE SQLWARNING SQL_BIG_RESULT
        SQL_CALC_FOUND_ROWS SQL_SMALL_RESULT SSL STARTING STORED STRAIGHT_JOIN SYSTEM TABLE
        TERMINATED THEN TINYBLOB TINYINT TINYTEXT TO TRAILING TRIGGER TRUE UNDO UNION UNIQUE UNLOCK
        UNSIGNED UPDATE USAGE USE USING UTC_DATE UTC_TIME UTC_TIMESTAMP VALUES VARBINARY VARCHAR
        VARCHARACTER VARYING VIRTUAL WHEN WHERE WHILE WINDOW WITH WRITE XOR YEAR_MONTH ZEROFILL
    }
    open {
        ACCOUNT ACTION ADMIN AFTER AGAINST ALGORITHM ALWAYS ANY ARRAY ASCII AT AUTHENTICATION
        AUTOEXTEND_SIZE AUTO_INCREMENT AVG AVG_ROW_LENGTH BACKUP BEGIN BINLOG BIT BIT_AND BIT_OR
        BIT_XOR BOOL BOOLEAN BTREE BYTE CACHE CASCADED CAST CHAIN CHANGED CHANNEL CHARSET CHECKSUM
        CLIENT CLOSE COALESCE COLLATION COLLATIONS COLUMNS COLUMN_FORMAT COMMENT COMMIT COMMITTED
        COMPACT COMPLETION COMPRESSED COMPRESSION CONCURRENT CONNECTION CONSISTENT CONTAINS
        COUNT CURDATE CURTIME CURRENT DATA DATAFILE DATE DATETIME DATE_ADD DATE_SUB DAY DEALLOCATE
        DEFINER DELAY_KEY_WRITE DIRECTORY DISABLE DISCARD DISK DO DUMPFILE DUPLICATE DYNAMIC
        ENABLE ENCRYPTION END ENDS ENFORCED ENGINE ENGINES ENGINE_ATTRIBUTE ENUM ERROR ERRORS
        ESCAPE EVENT EVENTS EVERY EXCHANGE EXCLUDE EXECUTE EXPANSION EXPIRE EXPORT EXTENDED
        EXTRACT FAILED_LOGIN_ATTEMPTS FAST FIELDS FILE FIRST FIXED FLUSH FOLLOWING
        FOLLOWS FORMAT FOUND
        FULL GENERAL GEOMCOLLECTION GEOMETRY GEOMETRYCOLLECTION GET_FORMAT GLOBAL GRANTS
        GROUP_CONCAT HANDLER HASH HELP HISTOGRAM HISTORY HOST HOSTS HOUR IDENTIFIED IGNORE_SPACE
        IMPORT INDEXES INITIAL INNODB INPLACE INSERT_METHOD INSTANCE INSTANT INVISIBLE INVOKER IO
        ISOLATION ISSUER JSON JSON_VALUE KEY_BLOCK_SIZE LANGUAGE LAST LESS LEVEL LINESTRING LIST
        LOCAL LOCKED LOGS MASTER MATERIALIZED MAX_CONNECTIONS_PER_HOUR MAX_QUERIES_PER_HOUR
        MAX_ROWS MAX_UPDATES_PER_HOUR MAX_USER_CONNECTIONS MEDIUM MEMBER MEMORY MERGE MICROSECOND
        MID MIGRATE MIN_ROWS MINUTE MODE MODIFY MONTH MULTILINESTRING MULTIPOINT MULTIPOLYGON MUTEX
        NAME NAMES NATIONAL NCHAR NDB NDBCLUSTER NESTED NEVER NEXT NO NOW NOWAIT NULLS NVARCHAR
        OFF OFFSET OJ OLD ONE ONLY OPEN OPTIONAL OPTIONS ORDINALITY OTHERS OWNER PACK_KEYS PARSER
        PARTIAL PARTITIONING PARTITIONS PASSWORD PASSWORD_LOCK_TIME PATH PERSIST PERSIST_ONLY
        PHASE PLUGIN PLUGINS POINT POLYGON POSITION PRECEDES
        PRECEDING PREPARE PRESERVE PREV PRIVILEGES
        PROCESS PROCESSLIST PROFILE PROFILES PROXY QUARTER QUERY QUICK RANDOM READ_ONLY REBUILD
        RECOVER REDUNDANT RELAY RELAYLOG RELOAD REMOVE REORGANIZE REPAIR REPEATABLE REPLICA
        REPLICAS REPLICATION RESET RESPECT RESTORE RESUME RETAIN RETURNING RETURNS REUSE REVERSE
        ROLE ROLLBACK ROLLUP ROUTINE ROW_COUNT ROW_FORMAT RTREE SAVEPOINT SCHEDULE SECOND
        SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE SECURITY SERIAL SERIALIZABLE SESSION
        SESSION_USER SHARE SHARED SHUTDOWN SIGNED SIMPLE SKIP SLAVE SLOW SNAPSHOT SOME SOUNDS SOURCE
        SQL_BUFFER_RESULT SQL_CACHE SQL_NO_CACHE SRID START STARTS STATS_AUTO_RECALC
        STATS_PERSISTENT STATS_SAMPLE_PAGES STATUS STD STDDEV STDDEV_POP STDDEV_SAMP STORAGE
        SUBDATE ADDDATE SUBJECT SUBPARTITION SUBPARTITIONS SUBSTR SUBSTRING SUM SUPER SUSPEND
        SYSDATE SYSTEM_USER MAX MIN VARIANCE VAR_POP VAR_SAMP TABLES TABLESAMPLE TABLESPACE
        TEMPORARY TEMPTABLE TEXT THAN THREAD_PRIORITY TIES TIME TIMESTAMP TIMESTAMPADD
        TIMESTAMPDIFF TRADITIONAL TRANSACTION TREE TRIGGERS TRIM TRUNCATE TYPE UNBOUNDED
        UNCOMMITTED UNDEFINED UNICODE UNINSTALL UNKNOWN UNTIL UPGRADE USER USER_RESOURCES
        USE_FRM VALIDATION VALUE VARIABLES VIEW VISIBLE WAIT WARNINGS WEEK WEIGHT_STRING WITHOUT
        WORK WRAPPER X509 XA XID XML YEAR ZONE JSON_ARRAYAGG JSON_OBJECTAGG INSTALL COMPONENT
        BERNOULLI LOGFILE CODE STACKED DIAGNOSTICS BUCKETS AUTO MANUAL
    }
}

/// Longest keyword, in bytes.
const MAX_LENGTH: usize = 32;
const TABLE_BITS: u32 = 12;
const TABLE_SIZE: usize = 1 << TABLE_BITS;

/// Index into `ALL` for each slot; 0 if the slot is empty.
static TABLE: [u16; TABLE_SIZE] = build_table();

/// `word` is upper case and not empty.
#[expect(
    clippy::indexing_slicing,
    reason = "callers pass a word of at least one byte, the other indexes are below its length"
)]
const fn slot_of(word: &[u8]) -> usize {
    let n = word.len();
    let a = word[0] as u32;
    let b = word[n / 2] as u32;
    let c = word[n - 1] as u32;
    let d = word[n / 4] as u32;
    let e = word[(n * 3) / 4] as u32;
    let mix = a | (b << 6) ^ (c << 12) ^ (d << 18) ^ (e << 23) ^ ((n as u32) << 27);
    (mix.wrapping_mul(0x9E37_79B1) >> (32 - TABLE_BITS)) as usize
}

#[expect(
    clippy::indexing_slicing,
    reason = "indexes are reduced modulo the table size or below the slice length"
)]
const fn build_table() -> [u16; TABLE_SIZE] {
    let mut table = [0_u16; TABLE_SIZE];
    let mut i = 1;
    while i < NAMES.len() {
        let mut slot = slot_of(NAMES[i].as_bytes());
        while table[slot] != 0 {
            slot = (slot + 1) % TABLE_SIZE;
        }
        table[slot] = i as u16;
        i += 1;
    }
    table
}

impl Keyword {
    /// Looks a word up, case-insensitively; [`Keyword::NONE`] if it is not a keyword.
    #[must_use]
    pub fn of(word: &[u8]) -> Keyword {
        let mut buffer = [0_u8; MAX_LENGTH];
        let Some(upper) = buffer.get_mut(..word.len()) else {
            return Keyword::NONE;
        };
        if word.len() < 2 {
            return Keyword::NONE;
        }
        upper.copy_from_slice(word);
        upper.make_ascii_uppercase();
        let mut slot = slot_of(upper);
        loop {
            let index = usize::from(TABLE.get(slot).copied().unwrap_or(0));
            if index == 0 {
                return Keyword::NONE;
            }
            if NAMES
                .get(index)
                .is_some_and(|name| name.as_bytes() == upper)
            {
                return ALL.get(index).copied().unwrap_or(Keyword::NONE);
            }
            slot = (slot + 1) % TABLE_SIZE;
        }
    }

    /// Whether the word can be an identifier only if it is quoted.
    #[must_use]
    pub const fn is_reserved(self) -> bool {
        let index = self as usize;
        index != 0 && index <= RESERVED
    }

    /// The keyword in upper case; empty for [`Keyword::NONE`].
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(self as usize).copied().unwrap_or("")
    }
}

/// All keywords in upper case, and whether each is reserved.
pub fn all() -> impl Iterator<Item = (&'static str, bool)> {
    let words = ALL.iter().skip(1);
    words.map(|word| (word.name(), word.is_reserved()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case() {
        for (index, name) in NAMES.iter().enumerate().skip(1) {
            assert_eq!(Keyword::of(name.as_bytes()) as usize, index, "{name}");
            assert_eq!(
                Keyword::of(name.to_lowercase().as_bytes()) as usize,
                index,
                "{name}"
            );
        }
    }

    #[test]
    fn other_words_are_no_keywords() {
        for word in [
            "",
            "a",
            "selec",
            "selects",
            "utf8mb4",
            "this_word_is_longer_than_any_keyword_of_all",
        ] {
            assert_eq!(Keyword::of(word.as_bytes()), Keyword::NONE, "{word}");
        }
        assert!(Keyword::SELECT.is_reserved());
        assert!(Keyword::ZEROFILL.is_reserved());
        assert!(!Keyword::ACCOUNT.is_reserved());
    }

    #[test]
    fn look_ups_stay_short() {
        let longest = NAMES.iter().skip(1).map(|name| {
            let mut slot = slot_of(name.as_bytes());
            let mut probes = 1;
            while NAMES[usize::from(TABLE[slot])] != *name {
                slot = (slot + 1) % TABLE_SIZE;
                probes += 1;
            }
            probes
        });
        assert!(longest.max().unwrap() <= 8);
    }
}
