public class Main {
    static void f() {
        try {
            Integer.parseInt("x");
        } catch (NumberFormatException e) {
            throw new IllegalStateException("wrapped", e);
        }
    }
    public static void main(String[] args) {
        f();
    }
}
