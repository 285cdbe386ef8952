"""Deployment: from a bare server to a container in which the card computes, for hosts without a network.

What is installed, in which order and how one sees it is data (`backends/deployment.py`). Here a *plan* is made of it:
scripts for each step, and a playbook that sends them. Ansible runs as a program, through ansible-runner; nothing of it
is imported, and it is in the extra `torchferry[deploy]`.
"""
