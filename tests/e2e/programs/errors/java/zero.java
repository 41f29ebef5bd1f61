public class Main {
    static int div(int a, int b) {
        return a / b;
    }
    public static void main(String[] args) {
        System.out.println(div(1, 0));
    }
}
