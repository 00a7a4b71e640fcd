//! Asks with one prompt of inquire or dialoguer, and prints the answer.

fn main() {
    let kind = std::env::args().nth(1).unwrap_or_default();
    let choices = vec!["red", "green", "blue"];
    let answer = match kind.as_str() {
        "text" => inquire::Text::new("Name?").prompt().ok(),
        "select" => inquire::Select::new("Colour?", choices).prompt().ok().map(str::to_string),
        "input" => dialoguer::Input::<String>::new().with_prompt("Name").interact_text().ok(),
        "menu" => dialoguer::Select::new().with_prompt("Colour").items(&choices).default(0).interact().ok().map(|i| choices[i].to_string()),
        _ => None,
    };
    println!("answer: {}", answer.unwrap_or_else(|| "none".to_string()));
}
