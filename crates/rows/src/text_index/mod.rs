//! FULLTEXT indexes as transactional inverted indexes.
//!
//! An index has *posting blocks*: for a word the keys of many rows that have it, with the places of
//! the word in each. Writers of rows never change a block. They write the *document* of a row, its
//! words with their places, as one entry of the list of pending documents, as PostgreSQL's GIN
//! indexes do. Maintenance moves pending documents to new blocks, and merges small blocks
//! ([`maintenance`]). Searches read the blocks of their words and all pending documents.
//!
//! ```text
//! INSERT row 7  -> pending (7, 0): "fox" at 0, "dog" at 3
//! maintenance   -> blocks  "dog": 2, 7, 9    "fox": 7    ...    pending (7, 0) is deleted
//! DELETE row 7  -> removal 7: 0       the postings (7, 0) do not count any more
//! INSERT row 7  -> pending (7, 1), removal 7: 0, live
//! compaction    -> blocks without the postings (7, 0)
//! ```
//!
//! The documents that a row has had, one after the other, have ascending *generations*. A *removal*
//! is the generation up to which a row's documents are removed; rows that were never removed have
//! none, and documents of generation 0.
//!
//! All of these are ordinary entries of the index's space, written by ordinary transactions. So a
//! search finds the documents of its snapshot and those of its own transaction.
//!
//! Invariants:
//! 1. A pending document is written and deleted under the lock of its row, or deleted by the
//!    maintenance that puts it into blocks in the same transaction.
//! 2. A removal changes under the lock of its row. One that exists also under its own lock, because
//!    compaction deletes removals.
//! 3. Blocks are written only by transactions that hold the lock of the index's state.
//! 4. A document that is neither pending nor in blocks has no word, or is removed.
//!
//! So transactions that write different rows never wait for each other or conflict here, whatever
//! words the rows share, nor do writers wait for maintenance.
//!
//! Rejected: an entry for each word and row (a hundred bytes for each, ten times the text); blocks
//! that writers change (writers of a frequent word would conflict); a document's number instead of
//! its row's key (another entry for each row, and a look-up for each row found).

pub(crate) mod builder;
pub(crate) mod entries;
pub(crate) mod maintenance;
mod words;

pub(crate) use words::checkpoint;
pub use words::{TextIndex, collation_of_words, is_searchable};
