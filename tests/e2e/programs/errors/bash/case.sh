case x in
  a) echo 1
  b) echo 2 ;;
esac
