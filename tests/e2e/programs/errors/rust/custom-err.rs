#[derive(Debug)]
enum AppError { NotFound(String) }
fn run() -> Result<(), AppError> {
    Err(AppError::NotFound("x".to_string()))
}
fn main() -> Result<(), AppError> {
    run()
}
