import java.utl.List;

public class Main {
    public static void main(String[] args) {}
}
