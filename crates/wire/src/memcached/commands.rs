//! The table of commands: for each, its name in the ASCII dialect, the number of words that follow
//! the name, its opcodes in the binary dialect, and the layout of its binary request.
//!
//! A macro generates [`Command`], [`opcode`] and the look-up functions from the table. The parsers
//! match on [`Command`] without a wildcard, so that a command without a parser does not compile.
//!
//! Rejected: a column of parse functions in the table. A `match` is as short, and the
//! compiler inlines it.

/// Properties that distinguish the opcodes of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    /// Whether the usual reply is suppressed.
    quiet: bool,
    /// Whether the reply repeats the key.
    with_key: bool,
}

const PLAIN: Variant = Variant {
    quiet: false,
    with_key: false,
};
const QUIET: Variant = Variant {
    quiet: true,
    with_key: false,
};
const KEY: Variant = Variant {
    quiet: false,
    with_key: true,
};
const KEY_QUIET: Variant = Variant {
    quiet: true,
    with_key: true,
};

/// The parts that follow the header of a binary request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Whether the request has a key.
    key: bool,
    /// Whether the key may be omitted.
    optional_key: bool,
    /// Length of the extras in bytes.
    extras: u8,
    /// Whether the extras may be omitted.
    optional_extras: bool,
    /// Whether the request may have a value.
    value: bool,
}

/// Header only.
const BARE: Layout = Layout {
    key: false,
    optional_key: false,
    extras: 0,
    optional_extras: false,
    value: false,
};
/// A key, without extras or value.
const KEYED: Layout = Layout { key: true, ..BARE };
/// A key and a value, without extras.
const VALUED: Layout = Layout {
    value: true,
    ..KEYED
};

impl Layout {
    const fn extras(self, extras: u8) -> Layout {
        Layout { extras, ..self }
    }
}

/// An opcode: its command, its variant, and the layout of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opcode {
    pub(super) command: Command,
    variant: Variant,
    layout: Layout,
}

impl Opcode {
    /// Returns the opcode with this number, or `None` if it is unknown.
    #[inline]
    pub(super) fn of(code: u8) -> Option<&'static Opcode> {
        OPCODES.get(usize::from(code))?.as_ref()
    }

    /// Whether the usual reply is suppressed.
    pub(super) fn is_quiet(&self) -> bool {
        self.variant.quiet
    }

    /// Whether the reply repeats the key.
    pub(super) fn shows_key(&self) -> bool {
        self.variant.with_key
    }

    /// Whether these lengths are valid for a request; `body` is the length of all parts.
    #[inline]
    pub(super) fn allows(&self, key: usize, extras: usize, body: usize) -> bool {
        let layout = &self.layout;
        // `|` and `&` do not short-circuit: branches would cost more than the comparisons.
        let key_allowed = (layout.key == (key > 0)) | (layout.optional_key & (key == 0));
        let extras_len = usize::from(layout.extras);
        let extras_allowed = (extras == extras_len) | (layout.optional_extras & (extras == 0));
        key_allowed & extras_allowed & (layout.value | (body == key + extras))
    }
}

macro_rules! commands {
    ($(
        $(#[$doc:meta])*
        $command:ident {
            $(word: $word:literal $(, arguments: $least:literal to $most:literal)?;)?
            $(opcodes: $($opcode:ident = $code:literal $variant:ident),+; layout: $layout:expr;)?
        }
    )*) => {
        /// A command of any dialect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Command {
            $($(#[$doc])* $command,)*
        }

        impl Command {
            /// All commands.
            pub const ALL: &[Command] = &[$(Command::$command),*];

            /// Returns the command with this name in the ASCII dialect.
            #[inline(always)]
            pub fn of_word(word: &[u8]) -> Option<Command> {
                match word {
                    $($($word => Some(Command::$command),)?)*
                    _ => None,
                }
            }

            /// Name of the command in the ASCII dialect, if it has one.
            pub fn word(self) -> Option<&'static [u8]> {
                match self {
                    $($(Command::$command => Some($word),)?)*
                    #[allow(unreachable_patterns, reason = "one command at least has no word")]
                    _ => None,
                }
            }

            /// Minimum and maximum number of words after the name; unlimited if the table has no
            /// `arguments`.
            #[inline(always)]
            pub(super) fn arguments(self) -> (usize, usize) {
                match self {
                    $($($(Command::$command => ($least, $most),)?)?)*
                    _ => (0, usize::MAX),
                }
            }
        }

        /// Opcodes, indexed by number.
        static OPCODES: [Option<Opcode>; 256] = {
            let mut table = [None; 256];
            $($($(table[$code] = Some(Opcode {
                command: Command::$command,
                variant: $variant,
                layout: $layout,
            });)+)?)*
            table
        };

        /// Opcodes of the binary dialect, under the names of the protocol's description.
        pub mod opcode {
            #![expect(missing_docs, reason = "the names are those of the protocol")]
            $($($(pub const $opcode: u8 = $code;)+)?)*
        }
    };
}

commands! {
    /// Reads items.
    Get {
        word: b"get";
        opcodes: GET = 0x00 PLAIN, GETQ = 0x09 QUIET, GETK = 0x0c KEY, GETKQ = 0x0d KEY_QUIET;
        layout: KEYED;
    }
    /// Reads items and their versions.
    Gets { word: b"gets"; }
    /// Reads items and sets their expiry times.
    Gat {
        word: b"gat";
        opcodes: GAT = 0x1d PLAIN, GATQ = 0x1e QUIET, GATK = 0x23 KEY, GATKQ = 0x24 KEY_QUIET;
        layout: KEYED.extras(4);
    }
    /// Reads items and their versions, and sets their expiry times.
    Gats { word: b"gats"; }
    /// Stores a value.
    Set {
        word: b"set", arguments: 4 to 5;
        opcodes: SET = 0x01 PLAIN, SETQ = 0x11 QUIET;
        layout: VALUED.extras(8);
    }
    /// Stores a value if the item does not exist.
    Add {
        word: b"add", arguments: 4 to 5;
        opcodes: ADD = 0x02 PLAIN, ADDQ = 0x12 QUIET;
        layout: VALUED.extras(8);
    }
    /// Stores a value if the item exists.
    Replace {
        word: b"replace", arguments: 4 to 5;
        opcodes: REPLACE = 0x03 PLAIN, REPLACEQ = 0x13 QUIET;
        layout: VALUED.extras(8);
    }
    /// Appends to an existing value.
    Append {
        word: b"append", arguments: 4 to 5;
        opcodes: APPEND = 0x0e PLAIN, APPENDQ = 0x19 QUIET;
        layout: VALUED;
    }
    /// Prepends to an existing value.
    Prepend {
        word: b"prepend", arguments: 4 to 5;
        opcodes: PREPEND = 0x0f PLAIN, PREPENDQ = 0x1a QUIET;
        layout: VALUED;
    }
    /// Stores a value if the item has the given version.
    Cas { word: b"cas", arguments: 5 to 6; }
    /// Adds to a number.
    Increment {
        word: b"incr", arguments: 2 to 3;
        opcodes: INCREMENT = 0x05 PLAIN, INCREMENTQ = 0x15 QUIET;
        layout: KEYED.extras(20);
    }
    /// Subtracts from a number.
    Decrement {
        word: b"decr", arguments: 2 to 3;
        opcodes: DECREMENT = 0x06 PLAIN, DECREMENTQ = 0x16 QUIET;
        layout: KEYED.extras(20);
    }
    /// Deletes an item.
    Delete {
        word: b"delete", arguments: 1 to 3;
        opcodes: DELETE = 0x04 PLAIN, DELETEQ = 0x14 QUIET;
        layout: KEYED;
    }
    /// Sets an item's expiry time.
    Touch {
        word: b"touch", arguments: 2 to 3;
        opcodes: TOUCH = 0x1c PLAIN;
        layout: KEYED.extras(4);
    }
    /// `mg`: reads an item and the metadata that the command's flags request.
    MetaGet { word: b"mg"; }
    /// `ms`: stores.
    MetaSet { word: b"ms"; }
    /// `md`: deletes, or marks as stale.
    MetaDelete { word: b"md"; }
    /// `ma`: counts.
    MetaArithmetic { word: b"ma"; }
    /// `me`: properties of an item.
    MetaDebug { word: b"me"; }
    /// No operation. Its reply tells the client that all earlier quiet commands have run.
    Noop {
        word: b"mn";
        opcodes: NOOP = 0x0a PLAIN;
        layout: BARE;
    }
    /// Deletes all items.
    Flush {
        word: b"flush_all", arguments: 0 to 2;
        opcodes: FLUSH = 0x08 PLAIN, FLUSHQ = 0x18 QUIET;
        layout: Layout { optional_extras: true, ..BARE.extras(4) };
    }
    /// Returns statistics.
    Stats {
        word: b"stats";
        opcodes: STAT = 0x10 PLAIN;
        layout: Layout { optional_key: true, ..KEYED };
    }
    /// Returns the server's version.
    Version {
        word: b"version";
        opcodes: VERSION = 0x0b PLAIN;
        layout: BARE;
    }
    /// Accepted for compatibility; has no effect.
    Verbosity {
        word: b"verbosity", arguments: 1 to 2;
        opcodes: VERBOSITY = 0x1b PLAIN;
        layout: BARE.extras(4);
    }
    /// Accepted for compatibility; has no effect.
    CacheLimit { word: b"cache_memlimit", arguments: 1 to 2; }
    /// Always refused.
    Shutdown { word: b"shutdown"; }
    /// Closes the connection.
    Quit {
        word: b"quit";
        opcodes: QUIT = 0x07 PLAIN, QUITQ = 0x17 QUIET;
        layout: BARE;
    }
    /// Lists the SASL mechanisms.
    SaslMechanisms {
        opcodes: SASL_LIST_MECHS = 0x20 PLAIN;
        layout: BARE;
    }
    /// Authenticates with SASL.
    SaslAuth {
        opcodes: SASL_AUTH = 0x21 PLAIN, SASL_STEP = 0x22 PLAIN;
        layout: VALUED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_unique_word_or_an_opcode() {
        let words: Vec<_> = Command::ALL.iter().filter_map(|c| c.word()).collect();
        for command in Command::ALL {
            if let Some(word) = command.word() {
                assert_eq!(Command::of_word(word), Some(*command));
                assert_eq!(words.iter().filter(|w| **w == word).count(), 1);
            }
            let opcodes = (0..=u8::MAX).filter_map(Opcode::of);
            let count = opcodes.filter(|opcode| opcode.command == *command).count();
            assert!(count > 0 || command.word().is_some(), "{command:?}");
        }
    }
}
