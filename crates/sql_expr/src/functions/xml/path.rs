//! The part of XPath 1.0 that MySQL's XML functions have: all of its operators; the axes ancestor,
//! attribute, child, descendant, parent and self; functions without node names and namespaces.

use super::document::is_name;

/// Depth of nesting beyond which an expression is refused.
const MAX_DEPTH: u32 = 200;

/// Bytes of the expression that an error shows.
const SHOWN: usize = 32;

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Union,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    Child,
    Attribute,
    Parent,
    Own,
    Descendant,
    DescendantOrOwn,
    Ancestor,
    AncestorOrOwn,
}

/// The nodes that a step keeps.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// `*`: elements, or attributes.
    Any,
    Name(Vec<u8>),
    Text,
    /// `node()`
    Node,
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) axis: Axis,
    pub(super) test: Test,
    pub(super) filters: Vec<Expr>,
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    Number(f64),
    Text(Vec<u8>),
    /// `$@name`
    Variable(Vec<u8>),
    /// Steps from the root, from the current node, or from the nodes of an expression.
    Path(Start, Vec<Step>),
    Call(Function, Vec<Expr>),
    Binary(Op, Box<(Expr, Expr)>, String),
    Negated(Box<Expr>),
}

#[derive(Clone, Debug)]
pub(super) enum Start {
    Root,
    Here,
    Of(Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Boolean,
    Ceiling,
    Concat,
    Contains,
    Count,
    False,
    Floor,
    Last,
    Not,
    Number,
    Position,
    Round,
    StringLength,
    Substring,
    Sum,
    True,
}

/// Functions with their least and most arguments; the last two need a current node.
const FUNCTIONS: [(&[u8], Function, usize, usize); 16] = [
    (b"boolean", Function::Boolean, 1, 1),
    (b"ceiling", Function::Ceiling, 1, 1),
    (b"concat", Function::Concat, 2, 255),
    (b"contains", Function::Contains, 2, 2),
    (b"count", Function::Count, 1, 1),
    (b"false", Function::False, 0, 0),
    (b"floor", Function::Floor, 1, 1),
    (b"last", Function::Last, 0, 0),
    (b"not", Function::Not, 1, 1),
    (b"number", Function::Number, 0, 1),
    (b"position", Function::Position, 0, 0),
    (b"round", Function::Round, 1, 1),
    (b"string-length", Function::StringLength, 0, 1),
    (b"substring", Function::Substring, 2, 3),
    (b"sum", Function::Sum, 1, 1),
    (b"true", Function::True, 0, 0),
];

const AXES: [(&[u8], Axis); 8] = [
    (b"ancestor", Axis::Ancestor),
    (b"ancestor-or-self", Axis::AncestorOrOwn),
    (b"attribute", Axis::Attribute),
    (b"child", Axis::Child),
    (b"descendant", Axis::Descendant),
    (b"descendant-or-self", Axis::DescendantOrOwn),
    (b"parent", Axis::Parent),
    (b"self", Axis::Own),
];

/// Binary operators from the loosest level to the tightest.
const LEVELS: [&[(&[u8], Op)]; 7] = [
    &[(b"or", Op::Or)],
    &[(b"and", Op::And)],
    &[(b"!=", Op::NotEqual), (b"=", Op::Equal)],
    &[
        (b"<=", Op::LessEqual),
        (b">=", Op::GreaterEqual),
        (b"<", Op::Less),
        (b">", Op::Greater),
    ],
    &[(b"+", Op::Add), (b"-", Op::Sub)],
    &[(b"*", Op::Mul), (b"div", Op::Div), (b"mod", Op::Mod)],
    &[(b"|", Op::Union)],
];

/// The level above which a minus sign may stand.
const UNARY: usize = 6;

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    depth: u32,
    /// Whether the expression is inside of a predicate.
    filters: u32,
}

type Parsed<T> = Result<T, String>;

/// Parses an expression.
///
/// # Errors
/// The text of MySQL's error 1105.
pub(super) fn parse(text: &[u8]) -> Parsed<Expr> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
        filters: 0,
    };
    let expr = parser.expr(0)?;
    match parser.rest() {
        [] => Ok(expr),
        _ => parser.error(),
    }
}

impl<'t> Parser<'t> {
    /// The text from here on, without leading space.
    fn rest(&mut self) -> &'t [u8] {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_ascii_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn shown(&mut self) -> String {
        let rest = self.rest();
        String::from_utf8_lossy(rest.get(..SHOWN).unwrap_or(rest)).into_owned()
    }

    fn error<T>(&mut self) -> Parsed<T> {
        Err(format!("XPATH syntax error: '{}'", self.shown()))
    }

    /// Takes a sign.
    fn eat(&mut self, sign: &[u8]) -> bool {
        let found = self.rest().starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    fn expect(&mut self, sign: &[u8]) -> Parsed<()> {
        if self.eat(sign) { Ok(()) } else { self.error() }
    }

    /// The name here; empty if there is none.
    fn name(&mut self) -> Vec<u8> {
        let rest = self.rest();
        let starts =
            |b: &u8| is_name(*b) && !b.is_ascii_digit() && !matches!(b, b'-' | b'.' | b':');
        if !rest.first().is_some_and(starts) {
            return Vec::new();
        }
        let len = rest.iter().take_while(|b| is_name(**b)).count();
        let mut name = rest.get(..len).unwrap_or_default();
        // `self::*` is an axis, `ns:a` a name.
        if let Some(at) = memchr::memmem::find(name, b"::") {
            name = name.get(..at).unwrap_or_default();
        }
        name.to_vec()
    }

    fn operator(&mut self, level: usize) -> Option<Op> {
        let choices = LEVELS.get(level)?;
        let name = self.name();
        let rest = self.rest();
        let here = |sign: &[u8]| match sign.first() {
            Some(b) if b.is_ascii_alphabetic() => name == sign,
            _ => rest.starts_with(sign),
        };
        let (sign, op) = choices.iter().find(|(sign, _)| here(sign))?;
        self.at += sign.len();
        Some(*op)
    }

    fn expr(&mut self, level: usize) -> Parsed<Expr> {
        if level == 0 {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return self.error();
            }
        }
        if level == UNARY && self.eat(b"-") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return self.error();
            }
            let negated = self.expr(UNARY)?;
            self.depth -= 1;
            return Ok(Expr::Negated(Box::new(negated)));
        }
        if level == LEVELS.len() {
            return self.operand();
        }
        let mut left = self.expr(level + 1)?;
        let mut chain = 0;
        loop {
            let here = self.shown();
            let Some(op) = self.operator(level) else {
                break;
            };
            chain += 1;
            if chain > MAX_DEPTH {
                return self.error();
            }
            let right = self.expr(level + 1)?;
            left = Expr::Binary(op, Box::new((left, right)), here);
        }
        if level == 0 {
            self.depth -= 1;
        }
        Ok(left)
    }

    fn operand(&mut self) -> Parsed<Expr> {
        let start = match self.rest() {
            [b'(', ..] => {
                self.at += 1;
                let inner = self.expr(0)?;
                self.expect(b")")?;
                inner
            }
            [quote @ (b'"' | b'\''), inside @ ..] => {
                let Some(len) = memchr::memchr(*quote, inside) else {
                    return self.error();
                };
                let text = inside.get(..len).unwrap_or_default().to_vec();
                self.at += len + 2;
                return Ok(Expr::Text(text));
            }
            [b'$', ..] => return self.variable(),
            [b'0'..=b'9', ..] => return self.number(),
            _ => return self.location(),
        };
        self.steps_of(start)
    }

    /// Predicates and steps after an expression in parentheses.
    fn steps_of(&mut self, start: Expr) -> Parsed<Expr> {
        let filters = self.filters()?;
        let mut steps = Vec::new();
        if !filters.is_empty() {
            steps.push(Step {
                axis: Axis::Own,
                test: Test::Node,
                filters,
            });
        }
        let is_path = matches!(start, Expr::Path(..) | Expr::Binary(Op::Union, ..));
        if self.rest().starts_with(b"/") && is_path {
            self.more_steps(&mut steps)?;
        }
        if steps.is_empty() {
            return Ok(start);
        }
        Ok(Expr::Path(Start::Of(Box::new(start)), steps))
    }

    fn variable(&mut self) -> Parsed<Expr> {
        let here = self.shown();
        self.at += 1;
        if !self.eat(b"@") {
            return Err(format!("Unknown XPATH variable at: '{here}'"));
        }
        let name = self.name();
        if name.is_empty() {
            return self.error();
        }
        self.at += name.len();
        Ok(Expr::Variable(name))
    }

    fn number(&mut self) -> Parsed<Expr> {
        let rest = self.rest();
        let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
        let mut len = digits(rest);
        if rest.get(len) == Some(&b'.') {
            len += 1 + digits(rest.get(len + 1..).unwrap_or_default());
        }
        let text = String::from_utf8_lossy(rest.get(..len).unwrap_or_default()).into_owned();
        self.at += len;
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Expr::Number(number)),
            _ => Err(format!(
                "Illegal double '{text}' value found during parsing"
            )),
        }
    }

    /// A call, or a path.
    fn location(&mut self) -> Parsed<Expr> {
        let name = self.name();
        let behind = self.text.get(self.at + name.len()..).unwrap_or_default();
        let is_test = matches!(name.as_slice(), b"text" | b"node");
        if !name.is_empty() && !is_test && behind.trim_ascii_start().starts_with(b"(") {
            return self.call(&name);
        }
        let mut steps = Vec::new();
        if self.rest().starts_with(b"/") {
            if !self.rest().starts_with(b"//") {
                self.at += 1;
                self.step(&mut steps)?;
            }
            self.more_steps(&mut steps)?;
            return Ok(Expr::Path(Start::Root, steps));
        }
        self.step(&mut steps)?;
        self.more_steps(&mut steps)?;
        Ok(Expr::Path(Start::Here, steps))
    }

    fn call(&mut self, name: &[u8]) -> Parsed<Expr> {
        let Some((_, function, least, most)) = FUNCTIONS.iter().find(|f| f.0 == name) else {
            return self.error();
        };
        self.at += name.len();
        self.expect(b"(")?;
        let mut args = Vec::new();
        if !self.eat(b")") {
            args.push(self.expr(0)?);
            while self.eat(b",") {
                args.push(self.expr(0)?);
            }
            self.expect(b")")?;
        }
        let of_node = match function {
            Function::Last | Function::Position => true,
            Function::StringLength | Function::Number => args.is_empty(),
            _ => false,
        };
        if !(*least..=*most).contains(&args.len()) || (of_node && self.filters == 0) {
            return self.error();
        }
        Ok(Expr::Call(*function, args))
    }

    /// `/step` and `//step`, any number of times.
    fn more_steps(&mut self, steps: &mut Vec<Step>) -> Parsed<()> {
        loop {
            if self.eat(b"//") {
                steps.push(Step {
                    axis: Axis::DescendantOrOwn,
                    test: Test::Node,
                    filters: Vec::new(),
                });
            } else if !self.eat(b"/") {
                return Ok(());
            }
            self.step(steps)?;
        }
    }

    fn step(&mut self, steps: &mut Vec<Step>) -> Parsed<()> {
        let plain = |axis: Axis| Step {
            axis,
            test: Test::Node,
            filters: Vec::new(),
        };
        if self.eat(b"..") {
            steps.push(plain(Axis::Parent));
            return Ok(());
        }
        if self.eat(b".") {
            steps.push(plain(Axis::Own));
            return Ok(());
        }
        let mut axis = Axis::Child;
        if self.eat(b"@") {
            axis = Axis::Attribute;
        } else {
            let name = self.name();
            let behind = self.text.get(self.at + name.len()..).unwrap_or_default();
            if behind.trim_ascii_start().starts_with(b"::") {
                let Some((_, found)) = AXES.iter().find(|(known, _)| *known == name) else {
                    return self.error();
                };
                axis = *found;
                self.at += name.len();
                self.expect(b"::")?;
            }
        }
        let test = self.test()?;
        let filters = self.filters()?;
        steps.push(Step {
            axis,
            test,
            filters,
        });
        Ok(())
    }

    fn test(&mut self) -> Parsed<Test> {
        if self.eat(b"*") {
            return Ok(Test::Any);
        }
        let name = self.name();
        if name.is_empty() {
            return self.error();
        }
        self.at += name.len();
        let kind = match name.as_slice() {
            b"text" => Test::Text,
            b"node" => Test::Node,
            _ => return Ok(Test::Name(name)),
        };
        if !self.eat(b"(") {
            return Ok(Test::Name(name));
        }
        self.expect(b")")?;
        Ok(kind)
    }

    fn filters(&mut self) -> Parsed<Vec<Expr>> {
        let mut filters = Vec::new();
        while self.eat(b"[") {
            self.filters += 1;
            filters.push(self.expr(0)?);
            self.filters -= 1;
            self.expect(b"]")?;
        }
        Ok(filters)
    }
}
