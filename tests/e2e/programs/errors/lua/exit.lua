io.stderr:write("failed\n")
os.exit(4)
