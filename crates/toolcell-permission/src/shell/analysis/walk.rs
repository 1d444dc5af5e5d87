//! Lists, pipelines, compound commands.

use super::scan::{Changes, multiplies};
use super::state::{State, Variable};
use super::wrappers::nothing;
use super::{Analyser, Flow, MAX_FEEDERS, Surroundings};
use crate::shell::ast::{AndOr, Command, Compound, Connector, List, Pipeline, Redirect};
use crate::shell::script::{Cwd, Stdin, Word};
use crate::shell::settings::Dialect;

impl Analyser<'_> {
    pub(super) fn list(&mut self, list: &List, state: &mut State, flow: &Flow) {
        for and_or in list {
            if and_or.background {
                let mut child = state.child();
                self.and_or(and_or, &mut child, &flow.in_condition());
                continue;
            }
            self.and_or(and_or, state, flow);
            if state.ends_on_error && flow.ends_on_error && and_or.rest.is_empty() {
                state.succeeded();
            }
            state.settle();
        }
    }

    fn and_or(&mut self, and_or: &AndOr, state: &mut State, flow: &Flow) {
        let conditional = flow.in_condition();
        let first_flow = if and_or.rest.is_empty() { flow } else { &conditional };
        self.pipeline(&and_or.first, state, first_flow);
        for (connector, pipeline) in &and_or.rest {
            // What the commands so far leave if this one does not run; a directory that a failed `cd` leaves included.
            let skipped = match connector {
                Connector::And => {
                    let mut skipped = state.clone();
                    skipped.failed();
                    state.succeeded();
                    skipped
                }
                Connector::Or => {
                    let mut skipped = state.clone();
                    skipped.succeeded();
                    state.failed();
                    skipped
                }
            };
            self.pipeline(pipeline, state, &conditional);
            let ran = std::mem::replace(state, State::new(Cwd::Unknown));
            *state = join_keeping_failure(skipped, ran, *connector);
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, state: &mut State, flow: &Flow) {
        if let [only] = pipeline.commands.as_slice() {
            if pipeline.negated {
                self.command(only, state, &flow.in_condition());
            } else {
                self.command(only, state, flow);
            }
            if pipeline.negated {
                state.settle();
            }
            return;
        }
        let start = self.script.commands.len();
        for (place, command) in pipeline.commands.iter().enumerate() {
            let mut child = state.child();
            let mut own = flow.in_condition();
            if place > 0 {
                own.stdin = Stdin::Pipe;
                let end = self.script.commands.len();
                own.fed_by = (start..end).rev().take(MAX_FEEDERS).collect();
                own.fed_by.reverse();
            }
            self.command(command, &mut child, &own);
            if let Some(taint) = child.taint {
                // Only the variable that a process changes is its own; but then `lastpipe` exists.
                state.taint(|| taint);
            }
        }
    }

    fn command(&mut self, command: &Command, state: &mut State, flow: &Flow) {
        match command {
            Command::Simple(simple) => self.simple(simple, state, flow),
            Command::Compound(compound, redirects) => {
                let before = (!redirects.is_empty()).then(|| state.clone());
                let flow = self.around(redirects, state, flow);
                self.compound(compound, state, &flow);
                if let Some(before) = before {
                    state.perhaps_not(before);
                }
            }
            Command::Function { name, body, redirects } => self.function(name, body, redirects, state, flow),
        }
    }

    /// Redirections of a compound command: reported with a command of their own that does nothing.
    fn around(&mut self, redirects: &[Redirect], state: &mut State, flow: &Flow) -> Flow {
        if redirects.is_empty() {
            return flow.clone();
        }
        let (redirects, stdin) = self.redirects(redirects, state, flow);
        let mut flow = flow.clone();
        if let Some(stdin) = stdin {
            flow.stdin = stdin;
            flow.fed_by = Vec::new();
        }
        if !redirects.is_empty() {
            let surroundings = Surroundings { redirects, taint: None, substituted: 0..0, flow: flow.clone() };
            self.push(vec![Word::Text(":".to_owned())], flow.need, state, &surroundings);
        }
        flow
    }

    fn compound(&mut self, compound: &Compound, state: &mut State, flow: &Flow) {
        match compound {
            Compound::Subshell(list) => {
                let mut child = state.child();
                self.list(list, &mut child, flow);
            }
            Compound::Group(list) => self.list(list, state, flow),
            Compound::If { branches, otherwise } => self.branches(branches, otherwise.as_ref(), state, flow),
            Compound::Loop { condition, body } => {
                self.forget_loop(&[condition, body], None, state);
                let round = self.begin_round(state);
                self.list(condition, state, &flow.in_condition());
                let without = state.clone();
                self.list(body, state, &flow.in_condition());
                self.end_round(&round, state);
                rejoin(state, without);
            }
            Compound::For { name, words, body } => self.for_each(name, words.as_deref(), body, state, flow),
            Compound::ForArithmetic { expressions, body } => {
                self.forget_loop(&[body], None, state);
                for arithmetic in expressions {
                    for name in &arithmetic.assigns {
                        self.assign(name, Variable::Number, state);
                    }
                }
                for arithmetic in expressions {
                    self.arithmetic(arithmetic, state, flow);
                }
                let round = self.begin_round(state);
                let without = state.clone();
                self.list(body, state, &flow.in_condition());
                self.end_round(&round, state);
                rejoin(state, without);
            }
            Compound::Case { subject, arms } => {
                self.value(subject, state, flow);
                let mut after = state.clone();
                for (patterns, body) in arms {
                    let mut arm = state.clone();
                    for pattern in patterns {
                        self.value(pattern, &mut arm, flow);
                    }
                    self.list(body, &mut arm, &flow.in_condition());
                    // With `;&` the next arm runs after this one, so every arm starts from what any before it left.
                    rejoin(&mut after, arm.clone());
                    rejoin(state, arm);
                }
                *state = after;
            }
            Compound::Arithmetic(arithmetic) => {
                self.test_of_the_shell("((", state, flow);
                self.arithmetic(arithmetic, state, flow);
            }
            Compound::Conditional(conditional) => {
                self.test_of_the_shell("[[", state, flow);
                for operand in &conditional.operands {
                    self.value(operand, state, flow);
                }
                for operand in &conditional.evaluated {
                    self.evaluated(operand, state, flow);
                }
            }
        }
    }

    /// `[[ … ]]` and `((…))` are commands, of which no rule needs to say anything.
    fn test_of_the_shell(&mut self, name: &str, state: &State, flow: &Flow) {
        let surroundings = Surroundings { redirects: Vec::new(), taint: None, substituted: 0..0, flow: flow.clone() };
        self.push(vec![Word::Text(name.to_owned())], nothing(flow.need), state, &surroundings);
    }

    fn branches(&mut self, branches: &[(List, List)], otherwise: Option<&List>, state: &mut State, flow: &Flow) {
        let mut after: Option<State> = None;
        for (condition, body) in branches {
            self.list(condition, state, &flow.in_condition());
            let mut branch = state.clone();
            self.list(body, &mut branch, &flow.in_condition());
            after = Some(match after {
                Some(other) => other.join(branch),
                None => branch,
            });
        }
        if let Some(list) = otherwise {
            self.list(list, state, &flow.in_condition());
        }
        if let Some(after) = after {
            rejoin(state, after);
        }
    }

    fn for_each(
        &mut self,
        name: &str,
        words: Option<&[crate::shell::ast::Word]>,
        body: &List,
        state: &mut State,
        flow: &Flow,
    ) {
        let mut values = Vec::new();
        match words {
            Some(words) => {
                for word in words {
                    values.extend(self.words(word, state, flow).into_iter().flatten());
                }
            }
            None => match &state.positional {
                Some(positional) => values.extend(positional.iter().cloned()),
                None => values.push(Word::Unknown { prefix: String::new(), many: true }),
            },
        }
        // Of a word that may be any number of words the variable gets one at a time.
        let one = |word| match word {
            Word::Unknown { prefix, .. } => Word::Unknown { prefix, many: false },
            known @ (Word::Text(_) | Word::Glob(_)) => known,
        };
        let value =
            if values.is_empty() { Variable::Unknown } else { Variable::values(values.into_iter().map(one).collect()) };
        self.forget_loop(&[body], Some((name, &value)), state);
        let without = state.clone();
        self.assign(name, value, state);
        let changed_in_body = Changes::of(body).variables.contains_key(name);
        if changed_in_body {
            state.set(name, Variable::Unknown);
        }
        let round = self.begin_round(state);
        self.list(body, state, &flow.in_condition());
        self.end_round(&round, state);
        rejoin(state, without);
    }

    /// Before a loop: what any round of it may have changed.
    ///
    /// `own` is the variable of a `for` with its values.
    fn forget_loop(&mut self, bodies: &[&List], own: Option<(&str, &Variable)>, state: &mut State) {
        state.settle();
        for body in bodies {
            let mut changes = Changes::of(body);
            let called = std::mem::take(&mut changes.called);
            changes.anything |= !called.iter().all(|name| {
                let value = match own {
                    Some((variable, value)) if variable == name => Some(value),
                    Some(_) | None => state.variables.get(name),
                };
                !changes.variables.contains_key(name) && value.is_some_and(|value| self.names_programs(value))
            });
            self.forget(&changes, state);
        }
        let changes = self.function_changes.clone();
        self.forget(&changes, state);
    }

    /// Whether a variable holds names of programs, which change nothing of the shell.
    fn names_programs(&self, value: &Variable) -> bool {
        let is_program = |word: &Word| {
            word.text().is_some_and(|text| {
                let name = text.split_whitespace().next().unwrap_or_default();
                let changes_nothing = matches!(name, "echo" | ":" | "true" | "false" | "pwd" | "test" | "[" | "type");
                (changes_nothing || !super::builtins::is_interpreted(name)) && !self.functions.contains(name)
            })
        };
        match value {
            Variable::OneOf(words) => words.iter().all(is_program),
            Variable::Array(_) | Variable::Number | Variable::Unknown => false,
        }
    }

    fn begin_round(&self, state: &State) -> Round {
        Round { first: self.script.commands.len(), tainted: state.taint.is_some(), exported_all: state.exports_all }
    }

    /// What a round taints at its end was tainted at the beginning of the next one.
    fn end_round(&mut self, round: &Round, state: &mut State) {
        if state.exports_all && !round.exported_all {
            state.taint(|| "`set -a` in a loop".to_owned());
        }
        let Some(taint) = state.taint.as_ref().filter(|_| !round.tainted) else { return };
        for command in self.script.commands.iter_mut().skip(round.first) {
            command.tainted.get_or_insert_with(|| taint.clone());
        }
    }

    fn function(&mut self, name: &str, body: &Compound, redirects: &[Redirect], state: &mut State, flow: &Flow) {
        if super::builtins::is_interpreted(name) {
            self.opaque(format!("it defines a function named `{name}`, which takes the place of a command"));
        }
        if multiplies(name, body) {
            self.danger("a function that starts itself several times: a fork bomb");
        }
        let wrapped = vec![AndOr {
            first: Pipeline {
                negated: false,
                commands: vec![Command::Compound(Box::new(body.clone()), redirects.to_vec())],
            },
            rest: Vec::new(),
            background: false,
        }];
        let changes = Changes::of(&wrapped);
        // It runs at another time: with any values, in any directory that the script goes to.
        let mut inner = state.child();
        inner.variables.clear();
        inner.positional = None;
        inner.home_is_known = false;
        inner.splits_at_blanks = false;
        if self.moves {
            inner.cwd = Cwd::Unknown;
        }
        self.functions.insert(name.to_owned());
        inner.functions.insert(name.to_owned());
        let own = Flow { stdin: Stdin::Unknown, fed_by: Vec::new(), in_function: true, ..flow.in_condition() };
        self.list(&wrapped, &mut inner, &own);
        if let Some(taint) = inner.taint {
            state.taint(|| taint);
        }
        if self.unset.contains(name) {
            self.opaque("a function may be taken away");
        }
        for (name, numbers) in changes.variables {
            let all = self.function_changes.variables.entry(name).or_insert(numbers);
            *all &= numbers;
        }
        self.function_changes.directory |= changes.directory;
        self.function_changes.anything |= changes.anything || !changes.called.is_empty();
        state.functions.insert(name.to_owned());
        self.check_trapped();
    }

    /// A trap may run between any two commands, so it must not change what they mean: here, by a function.
    pub(super) fn check_trapped(&mut self) {
        if !self.function_changes.is_nothing() && !self.trapped.is_disjoint(&self.functions) {
            self.opaque("a trap calls a function, and a function changes variables or the directory");
        }
    }

    pub(super) fn dialect_of(name: &str, current: Dialect) -> Option<Dialect> {
        match name {
            "bash" => Some(Dialect::Bash),
            "sh" | "dash" | "ash" => Some(Dialect::Sh),
            // Not a shell whose grammar is known; its text is read as the nearest one to see what it names.
            "zsh" | "ksh" | "mksh" | "fish" | "csh" | "tcsh" | "rbash" | "yash" => Some(current),
            _ => None,
        }
    }
}

/// Where a loop's round began.
struct Round {
    first: usize,
    tainted: bool,
    exported_all: bool,
}

/// The two ways past a command joined by `&&` or `||`, with what a failure after that would leave.
fn join_keeping_failure(skipped: State, ran: State, connector: Connector) -> State {
    match connector {
        // After `a && b` as a whole has succeeded, both have: only then is the directory certain.
        Connector::And => {
            let success = ran.clone();
            let mut failed = ran;
            failed.failed();
            let failed = failed.join(skipped);
            let mut joined = success.clone().join(failed.clone());
            if !success.ended {
                let mut certain = success;
                certain.succeeded();
                joined.cwd = certain.cwd;
                joined.failed_cwd = Some(failed.cwd);
            }
            joined
        }
        Connector::Or => skipped.join(ran),
    }
}

fn rejoin(state: &mut State, other: State) {
    let own = std::mem::replace(state, State::new(Cwd::Unknown));
    *state = own.join(other);
}
