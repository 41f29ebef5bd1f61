fn main() -> Result<(), Box<dyn std::error::Error>> {
    let n: i32 = "x".parse()?;
    println!("{}", n);
    Ok(())
}
