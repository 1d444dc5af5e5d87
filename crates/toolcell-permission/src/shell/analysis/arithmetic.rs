//! Arithmetic: a value that is not a plain integer may name an array's element, whose index may run a command.

use super::state::{State, Variable, is_integer};
use super::{Analyser, Flow};
use crate::shell::ast::{self, Arithmetic};
use crate::shell::script::Word;

/// Variables of the shell that hold integers unless a script assigns something else to them.
const NUMBERS: [&str; 8] = ["RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "EPOCHSECONDS", "SHLVL"];

impl Analyser<'_> {
    pub(super) fn arithmetic(&mut self, arithmetic: &Arithmetic, state: &mut State, flow: &Flow) {
        for list in &arithmetic.commands {
            let mut child = state.child();
            self.list(list, &mut child, &flow.in_condition());
        }
        if arithmetic.unclear || !arithmetic.commands.is_empty() {
            self.opaque("arithmetic over something that is not a plain integer");
        }
        for name in &arithmetic.reads {
            let number = match state.variables.get(name) {
                Some(variable) => is_decimal(variable),
                None => NUMBERS.contains(&name.as_str()) || matches!(name.as_str(), "#" | "?" | "$"),
            };
            if !number {
                self.opaque(format!(
                    "arithmetic with `{}`, whose value is not known to be an integer",
                    super::shorten(name.clone())
                ));
            }
        }
        for name in &arithmetic.assigns {
            self.assign(name, Variable::Number, state);
        }
    }

    /// A word that the shell evaluates: an operand of `-eq`, a name after `-v`, an index.
    pub(super) fn evaluated(&mut self, word: &ast::Word, state: &mut State, flow: &Flow) {
        let values = self.values(word, state, flow);
        let plain = |text: &str| {
            is_integer(text) && has_no_leading_zero(text)
                || text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && self.is_integer_name(text, state)
        };
        let number = matches!(word.parts.as_slice(), [crate::shell::ast::Part::Arithmetic(_)])
            || matches!(word.parts.as_slice(), [crate::shell::ast::Part::Parameter { parameter, .. }]
                if matches!(parameter.name.as_str(), "#" | "?" | "$")
                    || state.variables.get(&parameter.name).is_some_and(is_decimal));
        if !number && !values.iter().all(|value| value.text().is_some_and(plain)) {
            self.opaque("an operand that the shell evaluates is not known to be an integer");
        }
    }

    fn is_integer_name(&self, name: &str, state: &State) -> bool {
        state.variables.get(name).is_some_and(is_decimal)
    }
}

/// Whether it holds an integer that arithmetic takes for what it looks like: with a leading zero it is octal, or none.
fn is_decimal(variable: &Variable) -> bool {
    match variable {
        Variable::OneOf(words) => variable.is_number() && words.iter().filter_map(Word::text).all(has_no_leading_zero),
        Variable::Number | Variable::Array(_) | Variable::Unknown => variable.is_number(),
    }
}

fn has_no_leading_zero(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    digits.len() < 2 || !digits.starts_with('0')
}
