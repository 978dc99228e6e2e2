//! The table of commands: the word that names each in the ASCII dialect, the number of words that
//! follow it, its opcodes in the binary dialect, and the lengths of its binary request.
//!
//! [`Command`], [`opcode`] and the look-ups are made of the table. The parsers match a [`Command`]
//! without a wildcard, so that a command without its parser does not compile.
//!
//! Rejected: functions that parse as columns of the table. A `match` is as short, and the
//! compiler inlines it.

/// What an opcode says beside its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    /// The usual reply is not wanted.
    quiet: bool,
    /// The reply repeats the key.
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

/// Which parts a binary request has behind its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Whether there may be a key.
    key: bool,
    /// Whether the key may be left out.
    optional_key: bool,
    /// Length of the extras.
    extras: u8,
    /// Whether the extras may be left out.
    optional_extras: bool,
    /// Whether there may be a value.
    value: bool,
}

/// Nothing.
const BARE: Layout = Layout {
    key: false,
    optional_key: false,
    extras: 0,
    optional_extras: false,
    value: false,
};
/// A key.
const KEYED: Layout = Layout { key: true, ..BARE };
/// A key and a value.
const VALUED: Layout = Layout {
    value: true,
    ..KEYED
};

impl Layout {
    const fn extras(self, extras: u8) -> Layout {
        Layout { extras, ..self }
    }
}

/// An opcode: its command, and the form of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opcode {
    pub(super) command: Command,
    variant: Variant,
    layout: Layout,
}

impl Opcode {
    /// The opcode with this number.
    #[inline]
    pub(super) fn of(code: u8) -> Option<&'static Opcode> {
        OPCODES.get(usize::from(code))?.as_ref()
    }

    /// Whether the usual reply is not wanted.
    pub(super) fn is_quiet(&self) -> bool {
        self.variant.quiet
    }

    /// Whether the reply repeats the key.
    pub(super) fn shows_key(&self) -> bool {
        self.variant.with_key
    }

    /// Whether a request has these lengths; `body` is that of all parts together.
    #[inline]
    pub(super) fn fits(&self, key: usize, extras: usize, body: usize) -> bool {
        let layout = &self.layout;
        // Without short circuits, which would cost more than the comparisons.
        let key_fits = (layout.key == (key > 0)) | (layout.optional_key & (key == 0));
        let wanted = usize::from(layout.extras);
        let extras_fit = (extras == wanted) | (layout.optional_extras & (extras == 0));
        key_fits & extras_fit & (layout.value | (body == key + extras))
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

            /// The command that a word names in the ASCII dialect.
            #[inline(always)]
            pub fn of_word(word: &[u8]) -> Option<Command> {
                match word {
                    $($($word => Some(Command::$command),)?)*
                    _ => None,
                }
            }

            /// The word that names the command in the ASCII dialect.
            pub fn word(self) -> Option<&'static [u8]> {
                match self {
                    $($(Command::$command => Some($word),)?)*
                    #[allow(unreachable_patterns, reason = "one command at least has no word")]
                    _ => None,
                }
            }

            /// Least and most words after the name, where these numbers are fixed.
            #[inline(always)]
            pub(super) fn arguments(self) -> (usize, usize) {
                match self {
                    $($($(Command::$command => ($least, $most),)?)?)*
                    _ => (0, usize::MAX),
                }
            }
        }

        /// The opcodes by their numbers.
        static OPCODES: [Option<Opcode>; 256] = {
            let mut table = [None; 256];
            $($($(table[$code] = Some(Opcode {
                command: Command::$command,
                variant: $variant,
                layout: $layout,
            });)+)?)*
            table
        };

        /// Opcodes of the binary dialect, as the protocol's description names them.
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
    /// Reads items and moves their moments of expiry.
    Gat {
        word: b"gat";
        opcodes: GAT = 0x1d PLAIN, GATQ = 0x1e QUIET, GATK = 0x23 KEY, GATKQ = 0x24 KEY_QUIET;
        layout: KEYED.extras(4);
    }
    /// Reads items and their versions, and moves their moments of expiry.
    Gats { word: b"gats"; }
    /// Stores.
    Set {
        word: b"set", arguments: 4 to 5;
        opcodes: SET = 0x01 PLAIN, SETQ = 0x11 QUIET;
        layout: VALUED.extras(8);
    }
    /// Stores where there is no item.
    Add {
        word: b"add", arguments: 4 to 5;
        opcodes: ADD = 0x02 PLAIN, ADDQ = 0x12 QUIET;
        layout: VALUED.extras(8);
    }
    /// Stores where there is an item.
    Replace {
        word: b"replace", arguments: 4 to 5;
        opcodes: REPLACE = 0x03 PLAIN, REPLACEQ = 0x13 QUIET;
        layout: VALUED.extras(8);
    }
    /// Adds to the end of a value.
    Append {
        word: b"append", arguments: 4 to 5;
        opcodes: APPEND = 0x0e PLAIN, APPENDQ = 0x19 QUIET;
        layout: VALUED;
    }
    /// Adds to the start of a value.
    Prepend {
        word: b"prepend", arguments: 4 to 5;
        opcodes: PREPEND = 0x0f PLAIN, PREPENDQ = 0x1a QUIET;
        layout: VALUED;
    }
    /// Stores where the item has a version.
    Cas { word: b"cas", arguments: 5 to 6; }
    /// Counts up.
    Increment {
        word: b"incr", arguments: 2 to 3;
        opcodes: INCREMENT = 0x05 PLAIN, INCREMENTQ = 0x15 QUIET;
        layout: KEYED.extras(20);
    }
    /// Counts down.
    Decrement {
        word: b"decr", arguments: 2 to 3;
        opcodes: DECREMENT = 0x06 PLAIN, DECREMENTQ = 0x16 QUIET;
        layout: KEYED.extras(20);
    }
    /// Deletes.
    Delete {
        word: b"delete", arguments: 1 to 3;
        opcodes: DELETE = 0x04 PLAIN, DELETEQ = 0x14 QUIET;
        layout: KEYED;
    }
    /// Moves the moment of expiry.
    Touch {
        word: b"touch", arguments: 2 to 3;
        opcodes: TOUCH = 0x1c PLAIN;
        layout: KEYED.extras(4);
    }
    /// `mg`: reads an item and what its flags name.
    MetaGet { word: b"mg"; }
    /// `ms`: stores.
    MetaSet { word: b"ms"; }
    /// `md`: deletes, or marks as stale.
    MetaDelete { word: b"md"; }
    /// `ma`: counts.
    MetaArithmetic { word: b"ma"; }
    /// `me`: properties of an item.
    MetaDebug { word: b"me"; }
    /// Nothing; its reply ends those of quiet commands.
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
    /// Figures.
    Stats {
        word: b"stats";
        opcodes: STAT = 0x10 PLAIN;
        layout: Layout { optional_key: true, ..KEYED };
    }
    /// The server's version.
    Version {
        word: b"version";
        opcodes: VERSION = 0x0b PLAIN;
        layout: BARE;
    }
    /// Changes nothing here.
    Verbosity {
        word: b"verbosity", arguments: 1 to 2;
        opcodes: VERBOSITY = 0x1b PLAIN;
        layout: BARE.extras(4);
    }
    /// Changes nothing here.
    CacheLimit { word: b"cache_memlimit", arguments: 1 to 2; }
    /// Refused.
    Shutdown { word: b"shutdown"; }
    /// Ends the connection.
    Quit {
        word: b"quit";
        opcodes: QUIT = 0x07 PLAIN, QUITQ = 0x17 QUIET;
        layout: BARE;
    }
    /// Names the mechanisms of SASL.
    SaslMechanisms {
        opcodes: SASL_LIST_MECHS = 0x20 PLAIN;
        layout: BARE;
    }
    /// Authenticates by SASL.
    SaslAuth {
        opcodes: SASL_AUTH = 0x21 PLAIN, SASL_STEP = 0x22 PLAIN;
        layout: VALUED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_named_once() {
        let words: Vec<_> = Command::ALL.iter().filter_map(|c| c.word()).collect();
        for command in Command::ALL {
            if let Some(word) = command.word() {
                assert_eq!(Command::of_word(word), Some(*command));
                assert_eq!(words.iter().filter(|w| **w == word).count(), 1);
            }
            let opcodes = (0..=u8::MAX).filter_map(Opcode::of);
            let own = opcodes.filter(|opcode| opcode.command == *command).count();
            assert!(own > 0 || command.word().is_some(), "{command:?}");
        }
    }
}
