import java.io.*;

public class Main {
    public static void main(String[] args) {
        new FileReader("x");
    }
}
