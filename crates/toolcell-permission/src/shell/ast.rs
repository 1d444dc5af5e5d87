//! What the reader makes of a script's text. Offsets are bytes of that text.

/// Commands in sequence.
pub type List = Vec<AndOr>;

/// Pipelines joined by `&&` and `||`, ended by `;`, `&` or a newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AndOr {
    /// The first one.
    pub first: Pipeline,
    /// The others, each with what stands before it.
    pub rest: Vec<(Connector, Pipeline)>,
    /// It ends with `&`: runs beside what follows, in a process of its own.
    pub background: bool,
}

/// What joins two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connector {
    /// `&&`
    And,
    /// `||`
    Or,
}

/// Commands joined by `|`. `time` before it is the first word of its first command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// `!` stands before it: success and failure change places.
    pub negated: bool,
    /// At least one. With more than one each runs in a process of its own.
    pub commands: Vec<Command>,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Assignments, words, redirections.
    Simple(Simple),
    /// A compound command with its redirections.
    Compound(Box<Compound>, Vec<Redirect>),
    /// `name() …` or `function name …`
    Function {
        /// Its name.
        name: String,
        /// What a call of it runs.
        body: Box<Compound>,
        /// Made at every call.
        redirects: Vec<Redirect>,
    },
}

/// A simple command. Has at least one assignment, word or redirection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Simple {
    /// Before the first word.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments. Array assignments that are arguments of `declare` and the like are opaque.
    pub words: Vec<Word>,
    /// Anywhere in it.
    pub redirects: Vec<Redirect>,
}

/// A command made of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compound {
    /// `( … )`
    Subshell(List),
    /// `{ …; }`
    Group(List),
    /// `if … then … elif … then … else … fi`
    If {
        /// Conditions with what they lead to; at least one.
        branches: Vec<(List, List)>,
        /// After `else`.
        otherwise: Option<List>,
    },
    /// `while … do … done`, `until … do … done`
    Loop {
        /// Before `do`.
        condition: List,
        /// After it.
        body: List,
    },
    /// `for name in words; do … done`, also `select`
    For {
        /// The variable.
        name: String,
        /// `None` without `in`: the positional parameters.
        words: Option<Vec<Word>>,
        /// After `do`.
        body: List,
    },
    /// `for ((…;…;…)); do … done`
    ForArithmetic {
        /// The three expressions.
        expressions: Vec<Arithmetic>,
        /// After `do`.
        body: List,
    },
    /// `case subject in … esac`
    Case {
        /// What is compared.
        subject: Word,
        /// Patterns with what they lead to.
        arms: Vec<(Vec<Word>, List)>,
    },
    /// `((…))`
    Arithmetic(Arithmetic),
    /// `[[ … ]]`
    Conditional(Conditional),
}

/// `[[ … ]]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditional {
    /// Every operand, in order.
    pub operands: Vec<Word>,
    /// Operands that the shell evaluates as arithmetic (`-eq` …) or as a variable's name (`-v`).
    pub evaluated: Vec<Word>,
}

/// `NAME=value`, `NAME+=value`, `NAME=(…)`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// `NAME[…]=value`: the index as it stands there, if there is one.
    pub index: Option<Word>,
    /// `+=`
    pub append: bool,
    /// What it gets.
    pub value: Value,
}

/// What a variable gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A word, empty for `NAME=`.
    Word(Word),
    /// `(…)`
    Array(Vec<Word>),
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirect {
    /// Of a file or a descriptor.
    File {
        /// The descriptor before it.
        descriptor: Option<u32>,
        /// What it does.
        operator: RedirectOperator,
        /// After the operator.
        target: Word,
    },
    /// `<<`, `<<-`
    HereDocument {
        /// The descriptor before it.
        descriptor: Option<u32>,
        /// Its text; one quoted part if its delimiter was quoted, else expanded as in double quotes.
        body: Word,
    },
    /// `<<<`
    HereString {
        /// The descriptor before it.
        descriptor: Option<u32>,
        /// After the operator.
        word: Word,
    },
}

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectOperator {
    /// `<`
    Read,
    /// `>`, `>|`
    Write,
    /// `>>`
    Append,
    /// `<>`
    ReadWrite,
    /// `<&`
    DuplicateInput,
    /// `>&`
    DuplicateOutput,
    /// `&>`, `&>>`
    Both,
}

/// One word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Its parts, side by side; none for an empty word such as `''` only with a [`Part::Quoted`] of no text.
    pub parts: Vec<Part>,
    /// Where it begins.
    pub start: usize,
}

/// Part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Unquoted text without escapes: globs, braces and a leading `~` in it have their meaning.
    Bare(String),
    /// Quoted or escaped text, after quote removal: `'…'`, `\c`, `$'…'`, and text in `"…"`.
    Quoted(String),
    /// `$name`, `${…}`
    Parameter {
        /// Which.
        parameter: Parameter,
        /// In double quotes: one word, no globs.
        quoted: bool,
    },
    /// `$(…)`, `` `…` ``
    Command {
        /// What runs.
        list: List,
        /// In double quotes.
        quoted: bool,
    },
    /// `$((…))`
    Arithmetic(Arithmetic),
    /// `<(…)`, `>(…)`
    Process(List),
}

/// A parameter expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// A variable's name, a number, or one of `@ * # ? - $ !`.
    pub name: String,
    /// `${name[…]}`: the index as it stands there.
    pub index: Option<Box<Word>>,
    /// What is done with its value.
    pub operation: Operation,
}

/// What is done with a parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Nothing.
    Plain,
    /// `${#name}`
    Length,
    /// `-`, `:-`
    Default(Box<Word>),
    /// `=`, `:=`
    Assign(Box<Word>),
    /// `?`, `:?`
    Error(Box<Word>),
    /// `+`, `:+`
    Alternative(Box<Word>),
    /// `#`, `##`, `%`, `%%`, `/`, `//`, `^`, `,` …: the words in it.
    Edit(Vec<Word>),
    /// `:offset:length`
    Substring(Vec<Arithmetic>),
    /// `!name`, `@P` and the like: another name or code comes from the value.
    Indirect,
}

/// An arithmetic expression.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arithmetic {
    /// Names of variables in it, without `$`.
    pub reads: Vec<String>,
    /// Names of variables that it assigns.
    pub assigns: Vec<String>,
    /// Command substitutions in it.
    pub commands: Vec<List>,
    /// Why its value cannot be told to be free of code: indices, quotes, expansions with operators …
    pub unclear: bool,
}
