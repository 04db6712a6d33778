package main

const description = `Carillon collects events from outside sources into feeds, serves them over an HTTPS JSON API,
and delivers what is published as signed webhooks.

  carillon serve --dev     a server on this machine, with everything it needs, and a key to try it
  carillon demo            the main job, step by step

Every flag has a variable; an empty variable means the default.`
