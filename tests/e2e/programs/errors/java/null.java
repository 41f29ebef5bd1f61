public class Main {
    public static void main(String[] args) {
        String s = args.length > 5 ? "a" : null;
        System.out.println(s.length());
    }
}
