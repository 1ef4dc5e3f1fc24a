//! Documents whose examples can be run: what to write, what to run, what to expect.
//!
//! - A block after the comment `<!-- file: NAME -->` is the content of that file.
//! - In a `console` block, `$ ` starts a command (a backslash at its end continues it); the lines below are its output.
//!   `...` stands for anything within a line, alone on a line for any number of lines.

/// Something that a document asks for.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Write a file.
    File {
        /// Its name in the scratch directory.
        name: String,
        /// Its text.
        content: String,
    },
    /// Run a command and expect this output.
    Run {
        /// Line of the document, from 1.
        line: usize,
        /// The command, for bash.
        command: String,
        /// The lines shown below it.
        output: Vec<String>,
    },
}

/// The steps of a document, in order.
pub fn parse(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut file = None;
    let mut lines = text.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if let Some(name) = line.trim().strip_prefix("<!-- file:").and_then(|rest| rest.strip_suffix("-->")) {
            file = Some(name.trim().to_owned());
        } else if let Some(language) = line.strip_prefix("```") {
            let block: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, line)| !line.starts_with("```")).collect();
            if let Some(name) = file.take() {
                let content = block.iter().map(|(_, line)| format!("{line}\n")).collect();
                steps.push(Step::File { name, content });
            } else if language == "console" {
                steps.extend(commands(&block));
            }
        }
    }
    steps
}

/// The commands of a `console` block.
fn commands(block: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continued = false;
    for &(number, line) in block {
        if let (true, Some(Step::Run { command, .. })) = (continued, steps.last_mut()) {
            command.push('\n');
            command.push_str(line);
            continued = line.ends_with('\\');
        } else if let Some(command) = line.strip_prefix("$ ") {
            continued = line.ends_with('\\');
            steps.push(Step::Run { line: number + 1, command: command.to_owned(), output: Vec::new() });
        } else if let Some(Step::Run { output, .. }) = steps.last_mut() {
            output.push(line.to_owned());
        }
    }
    steps
}

/// Whether `lines` are as `pattern` shows them.
pub fn matches(pattern: &[&str], lines: &[&str]) -> bool {
    match pattern.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..])),
        Some((first, rest)) => {
            lines.split_first().is_some_and(|(line, others)| line_matches(first, line) && matches(rest, others))
        }
    }
}

/// Whether a line is as shown, with `...` for any text.
fn line_matches(pattern: &str, line: &str) -> bool {
    let Some((head, tail)) = pattern.split_once("...") else {
        return pattern == line;
    };
    let Some(rest) = line.strip_prefix(head) else {
        return false;
    };
    (0..=rest.len())
        .filter(|&skipped| rest.is_char_boundary(skipped))
        .any(|skipped| line_matches(tail, &rest[skipped..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_commands_and_output_are_found() {
        let text = "# Title\n<!-- file: a.c -->\n```c\nint x;\n```\n```sh\n$ not run\n```\n```console\n$ cc a.c \\\n  -o a\n$ ./a\n1\n2\n```\n";
        let run = |line, command: &str, output: &[&str]| Step::Run {
            line,
            command: command.to_owned(),
            output: output.iter().map(|&line| line.to_owned()).collect(),
        };
        let file = Step::File { name: "a.c".to_owned(), content: "int x;\n".to_owned() };
        assert_eq!(parse(text), [file, run(10, "cc a.c \\\n  -o a", &[]), run(12, "./a", &["1", "2"])]);
    }

    #[test]
    fn dots_stand_for_text_and_for_lines() {
        assert!(matches(&["a ... c", "...", "end"], &["a b c", "1", "2", "end"]));
        assert!(matches(&["...", "end"], &["end"]));
        assert!(!matches(&["a ... c"], &["a b d"]));
        assert!(!matches(&["a"], &["a", "b"]));
        assert!(!matches(&["a", "b"], &["a"]));
        assert!(matches(&["x = ... (... bytes)"], &["x = 1.5 (é bytes)"]));
    }
}
