from helpers.checks.lesson03 import *
