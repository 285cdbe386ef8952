"""The features that the target lacks, the obstacles of each program, and its verdict.

judging                 the verdict of each program; after_rehearsal: together with a run of it
missing_features        the places of a file that need what the target lacks
package_requirements    needs of installed packages; settings_requirements: of packages that settings name
presence_checks         places where a program ends since a package is missing
obstacles               a missing feature with the call path to it
blocking                the findings that block
fixes                   the fixes in the code that a program reaches
analysis_gaps           unread files, other frameworks, unverified packages; unread_code: packages that compute
unexamined              files and folders that were not examined
file_facts              facts that are extracted while a file is parsed for its rules
"""
