//! The names under which models know the tools of a server.

use std::collections::BTreeSet;

/// Longest name of a tool that every model provider takes, in characters.
const NAME_CHARS: usize = 64;

/// For each tool of a server, by its own name, the one that models are given: at most 64 characters of `[A-Za-z0-9_-]`, different for
/// each. In which order the server lists its tools does not matter.
pub(super) fn names(server: &str, tools: &[&str]) -> Vec<String> {
    let prefix = format!("mcp_{server}_");
    let wanted: Vec<String> = tools.iter().map(|tool| wanted(&prefix, tool)).collect();
    // Where two want one name, a tool whose own name fits as it is gets it.
    let mut order: Vec<usize> = (0..tools.len()).collect();
    order.sort_by_key(|&at| (wanted[at].strip_prefix(&prefix) != Some(tools[at]), tools[at]));
    let mut names = vec![String::new(); tools.len()];
    let mut taken = BTreeSet::new();
    for at in order {
        let name = free(&wanted[at], &taken);
        taken.insert(name.clone());
        names[at] = name;
    }
    names
}

fn wanted(prefix: &str, tool: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let letters = tool.chars().map(|letter| if fits(letter) { letter } else { '_' });
    prefix.chars().chain(letters).take(NAME_CHARS).collect()
}

/// The name itself, or with the first number behind it that makes it new.
fn free(wanted: &str, taken: &BTreeSet<String>) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    while taken.contains(&name) {
        let ending = format!("_{number}");
        name = wanted.chars().take(NAME_CHARS - ending.len()).collect::<String>() + &ending;
        number += 1;
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn odd_names_fit_and_stay_apart() {
        let odd = names("web", &["search", "odd name!", "a.b", "élan"]);
        assert_eq!(odd, ["mcp_web_search", "mcp_web_odd_name_", "mcp_web_a_b", "mcp_web__lan"]);
        assert_eq!(names("s", &["a b", "a_b", "a.b"]), ["mcp_s_a_b_2", "mcp_s_a_b", "mcp_s_a_b_3"]);
        assert_eq!(names("s", &["a.b", "a_b", "a b"]), ["mcp_s_a_b_3", "mcp_s_a_b", "mcp_s_a_b_2"]);
        assert_eq!(names("s", &["a b", "a_b", "a_b_2"]), ["mcp_s_a_b_3", "mcp_s_a_b", "mcp_s_a_b_2"]);
        let long = "x".repeat(100);
        let longer = "x".repeat(101);
        let names = names("s", &[&long, &longer]);
        assert_eq!(names[0], format!("mcp_s_{}", "x".repeat(58)));
        assert_eq!(names[1], format!("mcp_s_{}_2", "x".repeat(56)));
    }

    proptest! {
        #[test]
        fn names_are_usable_and_different(tools in prop::collection::vec("[a-c _.é-]{0,3}|x{60,70}", 0..40)) {
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let names = names("server", &tools);
            let usable = |name: &String| name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
            prop_assert!(names.iter().all(|name| usable(name) && name.starts_with("mcp_server_")));
            prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), tools.len());
        }
    }
}
