from summarily.spaces import launch

if __name__ == "__main__":
    launch("bleurt")
