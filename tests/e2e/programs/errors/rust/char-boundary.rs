fn initials(name: &str) -> String {
    name[0..1].to_string()
}

fn main() {
    for n in ["Anna", "Émile"] {
        println!("{}", initials(n));
    }
}
