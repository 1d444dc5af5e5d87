//! Syntax as compact text.

use crate::shell::ast::*;

pub(super) fn list(list: &List) -> String {
    list.iter().map(and_or).collect::<Vec<_>>().join("; ")
}

fn and_or(and_or: &AndOr) -> String {
    let mut text = pipeline(&and_or.first);
    for (connector, next) in &and_or.rest {
        text += match connector {
            Connector::And => " && ",
            Connector::Or => " || ",
        };
        text += &pipeline(next);
    }
    text + if and_or.background { " &" } else { "" }
}

fn pipeline(pipeline: &Pipeline) -> String {
    pipeline.commands.iter().map(command).collect::<Vec<_>>().join(" | ")
}

fn command(command: &Command) -> String {
    match command {
        Command::Simple(simple) => {
            let mut parts: Vec<String> = simple.assignments.iter().map(assignment).collect();
            parts.extend(simple.words.iter().map(word));
            parts.extend(simple.redirects.iter().map(redirect));
            parts.join(" ")
        }
        Command::Compound(inner, redirects) => {
            let mut text = compound(inner);
            redirects.iter().for_each(|redirect_| text += &format!(" {}", redirect(redirect_)));
            text
        }
        Command::Function { name, body, redirects } => {
            let mut text = format!("(function {name} {}", compound(body));
            redirects.iter().for_each(|redirect_| text += &format!(" {}", redirect(redirect_)));
            text + ")"
        }
    }
}

fn compound(compound: &Compound) -> String {
    match compound {
        Compound::Subshell(inner) => format!("(subshell {})", list(inner)),
        Compound::Group(inner) => format!("(group {})", list(inner)),
        Compound::If { branches, otherwise } => {
            let mut text = "(if".to_owned();
            branches.iter().for_each(|(condition, body)| text += &format!(" [{}] [{}]", list(condition), list(body)));
            if let Some(otherwise) = otherwise {
                text += &format!(" else [{}]", list(otherwise));
            }
            text + ")"
        }
        Compound::Loop { condition, body } => format!("(loop [{}] [{}])", list(condition), list(body)),
        Compound::For { name, words: None, body } => format!("(for {name} [{}])", list(body)),
        Compound::For { name, words: Some(found), body } => {
            format!("(for {name} in {} [{}])", words(found), list(body))
        }
        Compound::ForArithmetic { expressions, body } => {
            let expressions: Vec<_> = expressions.iter().map(arithmetic).collect();
            format!("(for {} [{}])", expressions.join(" "), list(body))
        }
        Compound::Case { subject, arms } => {
            let arms: Vec<_> =
                arms.iter().map(|(patterns, body)| format!(" {}) [{}]", words(patterns), list(body))).collect();
            format!("(case {}{})", word(subject), arms.concat())
        }
        Compound::Arithmetic(inner) => arithmetic(inner),
        Compound::Conditional(inner) => {
            let evaluated = if inner.evaluated.is_empty() {
                String::new()
            } else {
                format!(" evaluated {}", words(&inner.evaluated))
            };
            format!("[[{}{evaluated}]]", words(&inner.operands))
        }
    }
}

fn words(list: &[Word]) -> String {
    list.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn assignment(assignment: &Assignment) -> String {
    let index = assignment.index.as_ref().map(|index| format!("[{}]", word(index))).unwrap_or_default();
    let operator = if assignment.append { "+=" } else { ":=" };
    let value = match &assignment.value {
        Value::Word(value) => word(value),
        Value::Array(elements) => format!("({})", words(elements)),
    };
    format!("{}{index}{operator}{value}", assignment.name)
}

fn redirect(redirect: &Redirect) -> String {
    let number = |descriptor: &Option<u32>| descriptor.map(|number| number.to_string()).unwrap_or_default();
    match redirect {
        Redirect::File { descriptor, operator, target } => {
            let operator = match operator {
                RedirectOperator::Read => "<",
                RedirectOperator::Write => ">",
                RedirectOperator::Append => ">>",
                RedirectOperator::ReadWrite => "<>",
                RedirectOperator::DuplicateInput => "<&",
                RedirectOperator::DuplicateOutput => ">&",
                RedirectOperator::Both => "&>",
            };
            format!("{}{operator}{}", number(descriptor), word(target))
        }
        Redirect::HereDocument { descriptor, body } => format!("{}<<{}", number(descriptor), word(body)),
        Redirect::HereString { descriptor, word: text } => format!("{}<<<{}", number(descriptor), word(text)),
    }
}

pub(super) fn word(word: &Word) -> String {
    if word.parts.is_empty() {
        return "ø".to_owned();
    }
    word.parts.iter().map(part).collect::<Vec<_>>().join("~")
}

fn part(part: &Part) -> String {
    let mark = |quoted: &bool| if *quoted { "\"" } else { "" };
    match part {
        Part::Bare(text) => text.clone(),
        Part::Quoted(text) => format!("'{}'", text.replace('\n', "\\n")),
        Part::Parameter { parameter, quoted } => format!("{}{}", mark(quoted), expansion(parameter)),
        Part::Command { list: inner, quoted } => format!("{}$({})", mark(quoted), list(inner)),
        Part::Arithmetic(inner) => arithmetic(inner),
        Part::Process(inner) => format!("<({})", list(inner)),
    }
}

fn expansion(parameter: &Parameter) -> String {
    let index = parameter.index.as_ref().map(|index| format!("[{}]", word(index))).unwrap_or_default();
    let operation = match &parameter.operation {
        Operation::Plain => String::new(),
        Operation::Length => " length".to_owned(),
        Operation::Default(text) => format!(" - {}", word(text)),
        Operation::Assign(text) => format!(" = {}", word(text)),
        Operation::Error(text) => format!(" ? {}", word(text)),
        Operation::Alternative(text) => format!(" + {}", word(text)),
        Operation::Edit(found) => format!(" edit {}", words(found)),
        Operation::Substring(parts) => format!(" : {}", parts.iter().map(arithmetic).collect::<Vec<_>>().join(" ")),
        Operation::Indirect => " indirect".to_owned(),
    };
    format!("${{{}{index}{operation}}}", parameter.name)
}

fn arithmetic(arithmetic: &Arithmetic) -> String {
    let commands: Vec<_> = arithmetic.commands.iter().map(|inner| format!("$({})", list(inner))).collect();
    let unclear = if arithmetic.unclear { " unclear" } else { "" };
    let pieces = [arithmetic.reads.join(","), arithmetic.assigns.join(","), commands.join(",")];
    format!("((reads {} assigns {} commands {}{unclear}))", pieces[0], pieces[1], pieces[2])
}
