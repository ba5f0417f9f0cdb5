"""Programs that tests start in processes of their own are not collected as tests."""

collect_ignore = ["installed_program.py", "library_programs.py"]
