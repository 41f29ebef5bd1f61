public class Main {
    public static void main(String[] args) {
        int n = Integer.parseInt("12x");
    }
}
