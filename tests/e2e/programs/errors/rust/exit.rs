fn main() {
    eprintln!("error: bad argument");
    std::process::exit(2);
}
