"""Runs SCons, which is installed like any other Python package."""

from SCons.Script.Main import main

if __name__ == "__main__":
    main()
