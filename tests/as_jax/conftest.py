"""Programs that tests start in processes of their own are no tests."""

collect_ignore = ["installed_program.py", "library_programs.py"]
