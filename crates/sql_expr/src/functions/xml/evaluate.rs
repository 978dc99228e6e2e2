//! Evaluation of an XPath expression over the nodes of a fragment.

use porpoise_base::interrupt::Pacer;
use porpoise_types::Collation;
use std::cmp::Ordering;

use super::document::{Document, Kind};
use super::path::{Axis, Expr, Function, Op, Start, Step, Test};

/// The value of an expression.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Numbers of nodes, ascending.
    Nodes(Vec<usize>),
    Text(Vec<u8>),
    Number(f64),
    Bool(bool),
}

/// A node with its place among those that a step has found.
#[derive(Clone, Copy)]
struct Focus {
    node: usize,
    position: usize,
    last: usize,
}

pub(super) struct Evaluation<'d> {
    pub(super) document: &'d Document<'d>,
    /// The collation of the fragment: names and texts compare by it.
    pub(super) collation: Collation,
    /// The value of a user variable.
    pub(super) variable: &'d dyn Fn(&[u8]) -> Option<Value>,
    /// Texts of warnings 1292.
    pub(super) warnings: Vec<String>,
}

/// The texts directly in nodes, with spaces between them; the text of any other value.
pub(super) fn text_of(document: &Document<'_>, value: &Value) -> Vec<u8> {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(number) => format!("{number}").into_bytes(),
        Value::Bool(truth) => vec![if *truth { b'1' } else { b'0' }],
        Value::Nodes(nodes) => {
            let mut texts = Vec::new();
            let mut pacer = Pacer::new();
            for node in nodes {
                if pacer.leaves() {
                    break;
                }
                texts.extend(texts_in(document, *node));
            }
            texts.sort_unstable();
            texts.dedup();
            let texts: Vec<&[u8]> = texts.into_iter().map(|t| document.text(t)).collect();
            texts.join(&b' ')
        }
    }
}

/// The texts directly in a node; of a text, itself.
fn texts_in(document: &Document<'_>, node: usize) -> Vec<usize> {
    let is_text = |n: &usize| document.nodes.get(*n).is_some_and(|n| n.kind == Kind::Text);
    if is_text(&node) {
        return vec![node];
    }
    children(document, node)
        .into_iter()
        .filter(is_text)
        .collect()
}

fn children(document: &Document<'_>, node: usize) -> Vec<usize> {
    let end = document.nodes.get(node).map_or(0, |n| n.end);
    let mut out = Vec::new();
    let mut pacer = Pacer::new();
    let mut at = node + 1;
    while at < end && !pacer.leaves() {
        out.push(at);
        at = document.nodes.get(at).map_or(end, |n| n.end.max(at + 1));
    }
    out
}

type Evaluated<T> = Result<T, String>;

impl Evaluation<'_> {
    /// Evaluates an expression at the root.
    ///
    /// # Errors
    /// The text of MySQL's error 1105.
    pub(super) fn run(&mut self, expr: &Expr) -> Evaluated<Value> {
        let root = Focus {
            node: 0,
            position: 1,
            last: 1,
        };
        self.value(expr, root)
    }

    fn value(&mut self, expr: &Expr, at: Focus) -> Evaluated<Value> {
        Ok(match expr {
            Expr::Number(number) => Value::Number(*number),
            Expr::Text(text) => Value::Text(text.clone()),
            Expr::Variable(name) => (self.variable)(name).unwrap_or(Value::Text(Vec::new())),
            Expr::Negated(inner) => {
                let value = self.value(inner, at)?;
                Value::Number(-self.number(&value))
            }
            Expr::Call(function, args) => self.call(*function, args, at)?,
            Expr::Binary(op, operands, here) => self.binary(*op, operands, here, at)?,
            Expr::Path(start, steps) => {
                let mut nodes = match start {
                    Start::Root => vec![0],
                    Start::Here => vec![at.node],
                    Start::Of(inner) => match self.value(inner, at)? {
                        Value::Nodes(nodes) => nodes,
                        other => return Ok(other),
                    },
                };
                let of_set = matches!(start, Start::Of(_));
                for (index, step) in steps.iter().enumerate() {
                    nodes = if of_set && index == 0 && step.axis == Axis::Own {
                        // Predicates of an expression count its nodes.
                        self.filtered(nodes, &step.filters)?
                    } else {
                        self.step(&nodes, step)?
                    };
                }
                Value::Nodes(nodes)
            }
        })
    }

    fn step(&mut self, from: &[usize], step: &Step) -> Evaluated<Vec<usize>> {
        let mut out = Vec::new();
        let mut pacer = Pacer::new();
        for node in from {
            if pacer.leaves() {
                break;
            }
            let reached = self.reached(*node, step.axis);
            let kept = reached
                .into_iter()
                .filter(|n| self.passes(*n, step))
                .collect();
            out.extend(self.filtered(kept, &step.filters)?);
        }
        out.sort_unstable();
        out.dedup();
        Ok(out)
    }

    fn filtered(&mut self, mut nodes: Vec<usize>, filters: &[Expr]) -> Evaluated<Vec<usize>> {
        for filter in filters {
            let last = nodes.len();
            let mut kept = Vec::new();
            let mut pacer = Pacer::new();
            for (index, node) in nodes.into_iter().enumerate() {
                if pacer.leaves() {
                    break;
                }
                let position = index + 1;
                let focus = Focus {
                    node,
                    position,
                    last,
                };
                let keeps = match self.value(filter, focus)? {
                    Value::Bool(truth) => truth,
                    Value::Nodes(found) => !found.is_empty(),
                    Value::Number(number) => number == position as f64,
                    Value::Text(text) => self.index(&text, position == 1) == position as f64,
                };
                if keeps {
                    kept.push(node);
                }
            }
            nodes = kept;
        }
        Ok(nodes)
    }

    /// The number of a text that is a predicate, with a warning for other texts.
    fn index(&mut self, text: &[u8], warns: bool) -> f64 {
        let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
        if warns && (digits < text.len() || digits == 0) {
            let shown = String::from_utf8_lossy(text);
            self.warnings
                .push(format!("Truncated incorrect INTEGER value: '{shown}'"));
        }
        leading_number(text.get(..digits).unwrap_or_default())
    }

    fn reached(&self, node: usize, axis: Axis) -> Vec<usize> {
        let nodes = &self.document.nodes;
        let kind = |n: usize| nodes.get(n).map_or(Kind::Root, |n| n.kind);
        let end = nodes.get(node).map_or(node, |n| n.end);
        let outside_attributes = |n: &usize| {
            kind(*n) != Kind::Attribute
                && kind(nodes.get(*n).map_or(0, |n| n.parent)) != Kind::Attribute
        };
        let up = |from: usize| {
            let mut out = Vec::new();
            let mut at = from;
            while at > 0 {
                at = nodes.get(at).map_or(0, |n| n.parent);
                out.push(at);
            }
            out.reverse();
            out
        };
        match axis {
            Axis::Own => vec![node],
            Axis::Parent => match node {
                0 => Vec::new(),
                _ => vec![nodes.get(node).map_or(0, |n| n.parent)],
            },
            Axis::Attribute | Axis::Child => children(self.document, node)
                .into_iter()
                .filter(|n| (kind(*n) == Kind::Attribute) == (axis == Axis::Attribute))
                .collect(),
            Axis::Descendant => (node + 1..end).filter(outside_attributes).collect(),
            Axis::DescendantOrOwn => (node..end)
                .filter(|n| *n == node || outside_attributes(n))
                .collect(),
            Axis::Ancestor => up(node),
            Axis::AncestorOrOwn => {
                let mut out = up(node);
                out.push(node);
                out
            }
        }
    }

    fn passes(&self, node: usize, step: &Step) -> bool {
        let Some(found) = self.document.nodes.get(node) else {
            return false;
        };
        let wanted = if step.axis == Axis::Attribute {
            Kind::Attribute
        } else {
            Kind::Element
        };
        match &step.test {
            Test::Node => true,
            Test::Text => found.kind == Kind::Text,
            Test::Any => found.kind == wanted,
            Test::Name(name) => found.kind == wanted && self.document.text(node) == name.as_slice(),
        }
    }

    fn number(&self, value: &Value) -> f64 {
        match value {
            Value::Number(number) => *number,
            Value::Bool(truth) => f64::from(u8::from(*truth)),
            other => leading_number(&text_of(self.document, other)),
        }
    }

    fn truth(&self, value: &Value) -> bool {
        match value {
            Value::Bool(truth) => *truth,
            Value::Nodes(nodes) => !nodes.is_empty(),
            Value::Number(number) => *number != 0.0,
            Value::Text(text) => !text.is_empty(),
        }
    }

    fn binary(
        &mut self,
        op: Op,
        operands: &(Expr, Expr),
        here: &str,
        at: Focus,
    ) -> Evaluated<Value> {
        let left = self.value(&operands.0, at)?;
        match (op, self.truth(&left)) {
            (Op::Or, true) => return Ok(Value::Bool(true)),
            (Op::And, false) => return Ok(Value::Bool(false)),
            _ => {}
        }
        let right = self.value(&operands.1, at)?;
        let numbers = || (self.number(&left), self.number(&right));
        Ok(match op {
            Op::Or | Op::And => Value::Bool(self.truth(&right)),
            Op::Add => Value::Number(numbers().0 + numbers().1),
            Op::Sub => Value::Number(numbers().0 - numbers().1),
            Op::Mul => Value::Number(numbers().0 * numbers().1),
            Op::Div => Value::Number((numbers().0 / numbers().1).trunc()),
            Op::Mod => Value::Number(numbers().0 % numbers().1),
            Op::Union => match (left, right) {
                (Value::Nodes(mut nodes), Value::Nodes(others)) => {
                    nodes.extend(others);
                    nodes.sort_unstable();
                    nodes.dedup();
                    Value::Nodes(nodes)
                }
                _ => return Err(format!("XPATH syntax error: '{here}'")),
            },
            _ => {
                if let (Value::Nodes(_), Value::Nodes(_)) = (&left, &right) {
                    return Err(format!(
                        "XPATH error: comparison of two nodesets is not supported: '{here}'"
                    ));
                }
                Value::Bool(self.compares(op, &left, &right))
            }
        })
    }

    /// A comparison; of nodes, whether one of their texts satisfies it.
    fn compares(&self, op: Op, left: &Value, right: &Value) -> bool {
        let each = |nodes: &[usize], test: &dyn Fn(&Value) -> bool| {
            let texts = nodes.iter().flat_map(|n| texts_in(self.document, *n));
            texts
                .map(|text| Value::Text(self.document.text(text).to_vec()))
                .any(|text| test(&text))
        };
        match (left, right) {
            (Value::Nodes(nodes), _) => each(nodes, &|text| self.compares(op, text, right)),
            (_, Value::Nodes(nodes)) => each(nodes, &|text| self.compares(op, left, text)),
            _ => {
                let order = match (left, right) {
                    (Value::Text(a), Value::Text(b)) => Some(self.collation.compare(a, b)),
                    _ => self.number(left).partial_cmp(&self.number(right)),
                };
                order.is_some_and(|order| holds(op, order))
            }
        }
    }

    fn call(&mut self, function: Function, args: &[Expr], at: Focus) -> Evaluated<Value> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.value(arg, at)?);
        }
        let own = Value::Nodes(vec![at.node]);
        let first = values.first().unwrap_or(&own);
        let text = |value: &Value| text_of(self.document, value);
        let count = self.collation.charset();
        Ok(match function {
            Function::True => Value::Bool(true),
            Function::False => Value::Bool(false),
            Function::Boolean => Value::Bool(self.truth(first)),
            Function::Not => Value::Bool(!self.truth(first)),
            Function::Position => Value::Number(at.position as f64),
            Function::Last => Value::Number(at.last as f64),
            Function::Count => match first {
                Value::Nodes(nodes) => Value::Number(nodes.len() as f64),
                _ => return Err("XPATH syntax error: ''".to_owned()),
            },
            Function::Sum => match first {
                Value::Nodes(nodes) => {
                    let texts = nodes.iter().flat_map(|n| texts_in(self.document, *n));
                    let number = |text: usize| leading_number(self.document.text(text));
                    Value::Number(texts.map(number).sum())
                }
                _ => return Err("XPATH syntax error: ''".to_owned()),
            },
            Function::Number => Value::Number(self.number(first)),
            Function::Round => Value::Number(self.number(first).round()),
            Function::Floor => Value::Number(self.number(first).floor()),
            Function::Ceiling => Value::Number(self.number(first).ceil()),
            Function::Concat => Value::Text(values.iter().flat_map(text).collect()),
            Function::Contains => {
                let part = values.get(1).map(text).unwrap_or_default();
                let pattern = like_part(&part);
                Value::Bool(self.collation.like(&text(first), &pattern, Some('\\')))
            }
            Function::StringLength => Value::Number(count.char_count(&text(first)) as f64),
            Function::Substring => {
                let whole = text(first);
                let start = values.get(1).map_or(1.0, |v| self.number(v)).max(1.0) as usize;
                let len = values.get(2).map(|v| self.number(v).max(0.0) as usize);
                let rest = whole.get(count.prefix_len(&whole, start - 1)..);
                let rest = rest.unwrap_or_default();
                let kept = len.map_or(rest.len(), |len| count.prefix_len(rest, len));
                Value::Text(rest.get(..kept).unwrap_or_default().to_vec())
            }
        })
    }
}

/// A pattern of LIKE that finds a part.
fn like_part(part: &[u8]) -> Vec<u8> {
    let mut out = vec![b'%'];
    for byte in part {
        if matches!(byte, b'%' | b'_' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'%');
    out
}

fn holds(op: Op, order: Ordering) -> bool {
    match op {
        Op::Equal => order.is_eq(),
        Op::NotEqual => order.is_ne(),
        Op::Less => order.is_lt(),
        Op::LessEqual => order.is_le(),
        Op::Greater => order.is_gt(),
        Op::GreaterEqual => order.is_ge(),
        _ => false,
    }
}

/// The number at the start of a text; 0 without one.
fn leading_number(text: &[u8]) -> f64 {
    let text = text.trim_ascii_start();
    let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
    let sign = usize::from(matches!(text, [b'-' | b'+', ..]));
    let mut len = sign + digits(text.get(sign..).unwrap_or_default());
    if text.get(len) == Some(&b'.') {
        len += 1 + digits(text.get(len + 1..).unwrap_or_default());
    }
    let part = std::str::from_utf8(text.get(..len).unwrap_or_default());
    part.ok().and_then(|part| part.parse().ok()).unwrap_or(0.0)
}
